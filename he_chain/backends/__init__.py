"""Libraries that compute on CKKS ciphertexts, behind one small interface."""
