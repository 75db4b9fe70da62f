"""Worlds whose truth is known, and what vLLM servers in them would have emitted.

``World`` says what is true: tasks with their acceptance, what a round costs, how load and machines vary. From there:

- ``engine.simulate`` runs one engine iteration by iteration. Everything it emits agrees with everything else. ``text``
  prints it as scrapes, log and responses, for ingest to read; ``state`` gives what the counters read at any moment.
- ``nights.requests`` draws whole nights of requests of a fleet at once, without an engine loop. ``nights.cells`` adds
  them up to rows of ``cells_requests``, ``nights.rows`` gives them as rows of the raw tables. Thousands of nights are
  a matter of minutes.

All randomness comes from the generator that is passed in; the same seed gives the same world.
"""

from .world import RoundCost, Task, World

__all__ = ["RoundCost", "Task", "World"]
