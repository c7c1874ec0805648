"""A turn that goes on with another version of its agent: an act of somebody, on record, never a side effect.

What was asked stays asked, and what was answered stays answered. A call that has not started is judged again, by the
new version, before it runs; the stricter judgement wins, as ever. The limits of the turn stay those it was made with.
"""

from dataclasses import replace

from .events import EventType
from .inputs import Migrate
from .story import Advance, Story
from .turn import Migration


def migrate(story: Story, said: Migrate) -> Advance:
    """The same turn under the other version; every event from this one on carries it."""
    before = story.identity
    migration = Migration(
        at=story.now,
        from_version=before.agent_version,
        to_version=said.agent_version,
        metadata=said.metadata,
    )
    story.identity = replace(
        before,
        agent_version=said.agent_version,
        definition_hash=said.definition_hash,
        instructions=said.instructions,
    )
    story.migrations = (*story.migrations, migration)
    story.tell(
        EventType.TURN_MIGRATED,
        from_version=migration.from_version,
        to_version=migration.to_version,
        metadata=said.metadata,
    )
    story.save()
    return story.end()
