// What a test or another program calls; the page itself calls the same functions.

globalThis.Windhover = Object.freeze({
  verify, escaped, decodeCbor, decodeSign1, decodeTranscript, encodeTranscript, reduceResponse,
  includes, extendsTree, leafHash, sm3, Sm3, PublicKey, Trust, parseToml, TomlTable, readClaims,
  hexOf, bytesOfHex, bytesOfBase64, Refused, texts,
});
