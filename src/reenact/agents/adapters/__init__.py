"""Model adapters for the client objects of SDKs.

The user provides the client, so no SDK is imported here.
"""
