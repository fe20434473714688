"""The audit log as values: records, a Merkle tree over them, signed heads, proofs, exports."""
