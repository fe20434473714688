"""Decisions about calls: policy, matching against recorded calls, and the resulting action.

Pure, except for the usage ledger: no clock, no threads, no network."""
