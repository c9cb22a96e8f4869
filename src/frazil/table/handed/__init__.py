"""Hand rows to other libraries: as their frames, or as lazy frames that read when they run."""

__all__ = ["frames", "lazy_frames"]
