"""Evenkeel's own keys, in Pulsar's style and with a prefix of their own."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.settings.key import key


@dataclass(frozen=True)
class OwnKeys:
    """Switches and tolerances of Evenkeel itself; no broker knows them."""

    evenkeelSheddingEnabled: bool = key(True, unit="switch", meaning="Whether Evenkeel decides unloads.")
    evenkeelSplitEnabled: bool = key(True, unit="switch", meaning="Whether Evenkeel decides splits.")
    evenkeelManager: str = key(
        "auto",
        choices=("auto", "modular", "extensible"),
        unit="name",
        meaning="Whose rules hold; auto: those of the load manager that the brokers run.",
    )
    evenkeelPulsarVersion: str = key(
        "auto",
        default_5_0="5",
        choices=("auto", "4", "5", "4.x", "5.0"),
        unit="generation",
        meaning="Whose defaults and details hold; auto follows the oldest broker's version (4 where none is known). "
        "4.x and 5.0 are other spellings of 4 and 5.",
    )
    evenkeelDrainingBrokers: frozenset[str] = key(
        frozenset(),
        unit="broker ids (host:port)",
        meaning="Brokers that are being emptied: they get no bundles, whatever the filters and policies say.",
    )
    evenkeelMaxReportAgeSeconds: float = key(
        1_200.0, lowest=0.0, unit="s", meaning="A broker report older than this is not trusted (Pulsar: one in 15 min)."
    )
    evenkeelTopicSumTolerancePercent: float = key(
        25.0, lowest=0.0, unit="%", meaning="How far the sum of topic rates may be from the broker's own figure."
    )
    evenkeelTopicSumToleranceMsgPerSecond: float = key(
        10.0, lowest=0.0, unit="msg/s", meaning="Differences of topic sums below this never count."
    )
    evenkeelMaxSnapshotSeconds: float = key(
        60.0, lowest=0.0, unit="s", meaning="A snapshot that took longer shows no single moment and is not trusted."
    )
    evenkeelFutureToleranceSeconds: float = key(
        300.0, lowest=0.0, unit="s", meaning="How far ahead of its snapshot a time stamp may be."
    )
    evenkeelMissingBrokersToleratedPercent: float = key(
        34.0,
        lowest=0.0,
        highest=100.0,
        unit="%",
        meaning="Share of the brokers that may fail to answer before the cluster is left out of a cycle.",
    )
    evenkeelAssumeUnloadsSucceed: bool = key(
        False, unit="switch", meaning="Whether a decided unload counts as done before its outcome was seen."
    )
    evenkeelCommandsPerSecond: float = key(
        2.0, lowest=0.0, unit="1/s", meaning="Commands that may go out to a cluster each second; 0: without limit."
    )
    evenkeelCommandsInFlight: int = key(
        4, lowest=1, unit="count", meaning="Commands of a cluster that may be under way at once, one per bundle."
    )
    evenkeelReportWaitSeconds: float = key(
        120.0, lowest=0.0, unit="s", meaning="How long to wait for the reports of an agent that carries commands out."
    )
    evenkeelOutcomeWaitSeconds: float = key(
        15.0, lowest=0.0, unit="s", meaning="How long to look for the effect of a command that Pulsar has answered."
    )
