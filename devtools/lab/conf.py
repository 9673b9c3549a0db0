"""Configuration files: ZooKeeper's, the bookie's, a broker's. Names are those of Pulsar's own files.

Intervals are as short as Pulsar allows, so that tests take seconds instead of minutes. Settings in whole minutes (host
usage, shedding, splits) cannot go below one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from devtools.lab.ports import Ports, host
from devtools.lab.settings import MANAGERS, SHEDDERS, LabSettings
from devtools.lab.tokens import ADMIN, Tokens

CLUSTER = "lab"
SESSION_SECONDS = 10  # a killed broker stays listed until its session ends
STATS_SECONDS = 3


def properties(settings: Mapping[str, object]) -> str:
    """A file in Java's properties format; true and false in Java's spelling."""
    spelled = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.items()}
    return "".join(f"{key}={value}\n" for key, value in spelled.items())


def zookeeper(ports: Ports, data: Path) -> str:
    """Return ZooKeeper's configuration, which listens on loopback only."""
    return properties(
        {
            "dataDir": data,
            "clientPortAddress": host(1),
            "clientPort": ports.zookeeper,
            "tickTime": 1000,
            "maxClientCnxns": 0,
            "admin.enableServer": False,
        }
    )


def bookie(ports: Ports, data: Path) -> str:
    """Return the configuration of the only bookie. It must work on a nearly full disk, and keep nothing after a test
    run."""
    return properties(
        {
            "bookiePort": ports.bookie,
            "listeningInterface": "lo",
            "allowLoopback": True,
            "advertisedAddress": host(1),
            "metadataServiceUri": f"metadata-store:{metadata_store(ports)}",
            "journalDirectories": data,
            "ledgerDirectories": data,
            "journalSyncData": False,
            "journalMaxSizeMB": 256,
            "diskUsageThreshold": 0.99,
            "diskUsageWarnThreshold": 0.98,
            "httpServerEnabled": False,
            "enableStatistics": False,
            "numAddWorkerThreads": 1,
            "numReadWorkerThreads": 1,
            "serverNumIOThreads": 2,
        }
    )


def metadata_store(ports: Ports) -> str:
    return f"zk:{host(1)}:{ports.zookeeper}"


def broker(number: int, ports: Ports, settings: LabSettings, tokens: Tokens | None) -> str:
    """Broker `number`, counted from 1."""
    return properties(
        {
            "clusterName": CLUSTER,
            "metadataStoreUrl": metadata_store(ports),
            "configurationMetadataStoreUrl": metadata_store(ports),
            "metadataStoreSessionTimeoutMillis": SESSION_SECONDS * 1000,
            "bindAddress": host(number),
            "advertisedAddress": host(number),
            "brokerServicePort": ports.service,
            "webServicePort": ports.web,
            "brokerShutdownTimeoutMs": 4000,
            **STORAGE,
            **FEW_THREADS,
            **LOAD_MANAGEMENT,
            **_steering(settings),
            **(_authentication(tokens) if tokens else {}),
            **settings.broker,
        }
    )


STORAGE: Mapping[str, object] = {
    "managedLedgerDefaultEnsembleSize": 1,
    "managedLedgerDefaultWriteQuorum": 1,
    "managedLedgerDefaultAckQuorum": 1,
    "managedLedgerMaxEntriesPerLedger": 1_000_000,
    "managedLedgerCacheSizeMB": 24,
    "defaultRetentionTimeInMinutes": 0,
    "defaultRetentionSizeInMB": 0,
    "brokerDeleteInactiveTopicsEnabled": False,
    "allowAutoTopicCreation": True,
    "allowAutoTopicCreationType": "non-partitioned",
}

FEW_THREADS: Mapping[str, object] = {
    "numIOThreads": 2,
    "numAcceptorThreads": 1,
    "numOrderedExecutorThreads": 2,
    "numHttpServerThreads": 8,
    "numExecutorThreadPoolSize": 2,
    "numCacheExecutorThreadPoolSize": 2,
    "bookkeeperClientNumIoThreads": 1,
    "bookkeeperClientNumWorkerThreads": 2,
    "managedLedgerNumSchedulerThreads": 2,
    "brokerClient_numIoThreads": 1,
    "topicOrderedExecutorThreadNum": 2,
    "webSocketServiceEnabled": False,
    "functionsWorkerEnabled": False,
}

LOAD_MANAGEMENT: Mapping[str, object] = {
    "loadBalancerEnabled": True,  # load reports depend on it
    "loadBalancerReportUpdateMinIntervalMillis": 2000,
    "loadBalancerReportUpdateThresholdPercentage": 5,
    "loadBalancerReportUpdateMaxIntervalMinutes": 1,
    "loadBalancerHostUsageCheckIntervalMinutes": 1,
    "loadBalancerResourceQuotaUpdateIntervalMinutes": 1,
    "loadBalancerSheddingIntervalMinutes": 1,
    "loadBalancerSplitIntervalMinutes": 1,
    "loadBalancerOverrideBrokerNicSpeedGbps": 1,  # loopback has no speed
    "statsUpdateFrequencyInSecs": STATS_SECONDS,
    "statsUpdateInitialDelayInSecs": STATS_SECONDS,
    "defaultNumberOfNamespaceBundles": 4,
    "failureDomainsEnabled": True,
    "supportedNamespaceBundleSplitAlgorithms": (
        "range_equally_divide,topic_count_equally_divide,specified_positions_divide,flow_or_qps_equally_divide"
    ),
}


def _steering(settings: LabSettings) -> dict[str, object]:
    """The manager, and whether it sheds and splits by itself."""
    usual = "TransferShedder" if settings.manager == "extensible" else "ThresholdShedder"
    shedder = SHEDDERS[settings.own_shedding or usual]
    chosen: dict[str, object] = {
        "loadManagerClassName": MANAGERS[settings.manager],
        "loadBalancerSheddingEnabled": settings.own_shedding is not None,
        "loadBalancerLoadSheddingStrategy": shedder,
        "loadBalancerAutoBundleSplitEnabled": settings.own_split,
        "loadBalancerAutoUnloadSplitBundlesEnabled": settings.own_split,
    }
    if settings.own_shedding == "AvgShedder":  # it also places the bundles that it sheds
        chosen["loadBalancerLoadPlacementStrategy"] = shedder
    return chosen


def _authentication(tokens: Tokens) -> dict[str, object]:
    return {
        "authenticationEnabled": True,
        "authorizationEnabled": True,
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "tokenSecretKey": tokens.secret_key_url(),
        "superUserRoles": ADMIN,
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{tokens.of(ADMIN)}",
    }


LOGGING = """<Configuration status="ERROR">
  <Appenders>
    <Console name="out"><PatternLayout pattern="%d{ISO8601_OFFSET_DATE_TIME_HHCMM} %-5p %c{1} [%t] %m%n"/></Console>
  </Appenders>
  <Loggers>
    <Logger name="org.apache.zookeeper" level="WARN"/>
    <Logger name="org.apache.bookkeeper" level="WARN"/>
    <Logger name="org.eclipse.jetty" level="WARN"/>
    <Root level="INFO"><AppenderRef ref="out"/></Root>
  </Loggers>
</Configuration>
"""
