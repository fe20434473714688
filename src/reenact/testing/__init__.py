"""Test tools: recordings in memory, scripted peers, a fixed clock, and playbooks.

Reenact's own tests use them. They touch neither files nor the network.
"""

from __future__ import annotations

from reenact.store.sinks.memory import MemorySink, MemorySource, memory_seed, memory_source
from reenact.testing.playbook import Playbook
from reenact.testing.recordings import recording
from reenact.testing.scripted import Scripted
from reenact.testing.sessions import MemorySession, VirtualClock, memory_session

__all__ = [
    "MemorySession",
    "MemorySink",
    "MemorySource",
    "Playbook",
    "Scripted",
    "VirtualClock",
    "memory_seed",
    "memory_session",
    "memory_source",
    "recording",
]
