// Trees of RFC 9162 with SM3 (crypto/README.md, section Trees). Sizes are at most 2^53 - 1.

const leafHash = (entry) => sm3(Uint8Array.of(0), entry);
const nodeHash = (left, right) => sm3(Uint8Array.of(1), left, right);
const EMPTY_ROOT = sm3();
const half = (number) => Math.floor(number / 2);

/** Whether the leaf is at the index of the tree of this size and root (RFC 9162, 2.1.3.2). */
function includes(root, size, index, leaf, proof) {
  if (index >= size) return false;
  let place = index;
  let last = size - 1;
  let hash = leaf;
  for (const other of proof) {
    if (last === 0) return false;
    if (place % 2 === 1 || place === last) {
      hash = nodeHash(other, hash);
      while (place % 2 === 0 && place !== 0) {
        place = half(place);
        last = half(last);
      }
    } else {
      hash = nodeHash(hash, other);
    }
    place = half(place);
    last = half(last);
  }
  return last === 0 && equalBytes(hash, root);
}

/** Whether the newer tree begins with the older one (RFC 9162, 2.1.4.2). */
function extendsTree(oldSize, oldRoot, newSize, newRoot, proof) {
  if (oldSize > newSize) return false;
  if (oldSize === 0) return proof.length === 0 && equalBytes(oldRoot, EMPTY_ROOT);
  if (oldSize === newSize) return proof.length === 0 && equalBytes(oldRoot, newRoot);
  let place = oldSize - 1;
  let last = newSize - 1;
  while (place % 2 === 1) {
    place = half(place);
    last = half(last);
  }
  // an older tree that is one perfect subtree of the newer one is not repeated in the proof
  const path = place === 0 ? [oldRoot, ...proof] : proof;
  if (path.length === 0) return false;
  let older = path[0];
  let newer = path[0];
  for (const other of path.slice(1)) {
    if (last === 0) return false;
    if (place % 2 === 1 || place === last) {
      older = nodeHash(other, older);
      newer = nodeHash(other, newer);
      while (place % 2 === 0 && place !== 0) {
        place = half(place);
        last = half(last);
      }
    } else {
      newer = nodeHash(newer, other);
    }
    place = half(place);
    last = half(last);
  }
  return last === 0 && equalBytes(older, oldRoot) && equalBytes(newer, newRoot);
}
