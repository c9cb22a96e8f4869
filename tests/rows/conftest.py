"""Row-level verbs work in this process here, also when an earlier test has left a Spark session
behind.
"""

from tests.builders.sessions import no_session_is_active

__all__ = ["no_session_is_active"]
