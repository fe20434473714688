"""The audit log of each tenant: writing, proofs, API, export."""
