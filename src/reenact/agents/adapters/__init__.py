"""Models made of the client objects of SDKs, which the user brings: none of them is imported here."""
