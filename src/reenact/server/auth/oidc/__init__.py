"""Sign-in with OpenID Connect: authorization code flow with PKCE."""
