"""Administration pages: app agents, audit log, keys, people, environments and tenants."""
