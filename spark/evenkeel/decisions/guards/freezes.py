"""What an operator froze: namespaces, bundles and brokers.

Keys: evenkeelFrozenNamespaces, evenkeelFrozenBundles, evenkeelFrozenBrokers. A frozen bundle may have been split
meanwhile, or be about to be: whatever shares hashes with it is frozen too.
"""

from __future__ import annotations

from evenkeel.decisions.bundles import namespace_of
from evenkeel.decisions.guards.objection import Objection
from evenkeel.decisions.guards.overlap import overlaps
from evenkeel.decisions.guards.situation import Command
from evenkeel.settings import Settings


def frozen(command: Command, settings: Settings) -> Objection | None:
    """Whether anything that the command touches is frozen. What is frozen uses up no budget."""
    namespace = namespace_of(command.bundle)
    if namespace in settings.evenkeelFrozenNamespaces:
        return Objection("frozen_namespace", "evenkeelFrozenNamespaces", words={"namespace": namespace})
    named = next((one for one in sorted(settings.evenkeelFrozenBundles) if overlaps(command.bundle, one)), None)
    if named is not None:
        return Objection("frozen_bundle", "evenkeelFrozenBundles", words={"bundle": named})
    touched = (command.source, command.destination)
    broker = next((one for one in touched if one in settings.evenkeelFrozenBrokers), None)
    if broker is not None:
        return Objection("frozen_broker", "evenkeelFrozenBrokers", words={"broker": broker})
    return None
