"""Property tests of this room run on a busy machine: no deadline for a single example."""

from hypothesis import settings

from tests.builders.examples import examples

settings.register_profile("scan", deadline=None, max_examples=examples(60))
settings.load_profile("scan")
