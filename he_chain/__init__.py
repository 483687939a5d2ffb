"""A research driver that runs transformer layers on CKKS ciphertexts, one hop after the other."""
