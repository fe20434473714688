"""Signing in with an account of somebody else: OpenID Connect, code flow with PKCE."""
