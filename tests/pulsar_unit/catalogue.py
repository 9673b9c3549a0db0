"""Every test method of Pulsar that was looked at, by class, and why some are not restated.

Names of classes are those below `org.apache.pulsar.broker.loadbalance`, elsewhere those below `org.apache.pulsar`. A
method with `None` is restated in this folder. All come from the jar of tests of pulsar-broker 4.2.4, but for the
classes named `pulsar-common`: that module publishes no jar of its tests.
"""

from __future__ import annotations

SIMPLE = "SimpleLoadManagerImpl, which Evenkeel does not have"
REPORT = "what a broker measures, stores or reports, and when"
SERVER = "start, look-up, ownership, leadership or HTTP of a running broker"
CARRIED_OUT = "how a decision is carried out or scheduled"
STORED = "create, read, update and delete of policies or of stored data"
JSON = "reading or writing of JSON"
FAILS = "a call that fails inside the strategy; Evenkeel is given figures and calls nobody"
EMPTY = "states nothing"


def of(*restated: str, **left_out: str) -> dict[str, str | None]:
    """Method -> `None` where it is restated, else the reason why not."""
    return dict.fromkeys(restated) | left_out


CLASSES = {
    "impl.ThresholdShedderTest": of(
        "testNoBrokers",
        "testCleanCache",
        "testBrokersWithNoBundles",
        "testBrokerNotReachThreshold",
        "testBrokerReachThreshold",
        "testBrokerWithSingleBundle",
        "testBrokerWithMultipleBundles",
        "testFilterRecentlyUnloaded",
        "testPrintResourceUsage",
        "testLowerBoundaryShedding",
        "testLowerBoundarySheddingNoBrokerToOffload",
        "testLowerBoundarySheddingBrokerWithOneBundle",
    ),
    "impl.OverloadShedderTest": of(
        "testNoBrokers",
        "testBrokersWithNoBundles",
        "testBrokerNotOverloaded",
        "testBrokerWithSingleBundle",
        "testBrokerWithMultipleBundles",
        "testBrokerWithResourceWeight",
        "testFilterRecentlyUnloaded",
        "testPrintResourceUsage",
    ),
    "impl.UniformLoadShedderTest": of(
        "testMaxUnloadBundleNumPerShedding",
        "testBrokerWithMultipleBundles",
        "testOverloadBrokerSelect",
        "testSmallTrafficShedding",
    ),
    "impl.AvgShedderTest": of("testHitHighThreshold", "testHitLowThreshold", "testSheddingMultiplePairs"),
    "ModularLoadManagerStrategyTest": of(
        "testAvgShedderWithPreassignedBroker",
        "testAvgShedderWithoutPreassignedBroker",
        "testLeastLongTermMessageRate",
        "testLeastResourceUsageWithWeight",
        "testLeastResourceUsageWithWeightWithArithmeticException",
        "testRoundRobinBrokerSelector",
        "testActiveBrokersChange",
    ),
    "impl.LoadManagerSharedTest": of("testRemoveMostServicingBrokersForNamespace"),
    "impl.BrokerLoadManagerClassFilterTest": of("test"),
    "BrokerVersionFilterTest": of("testLatestVersion"),
    "impl.BundleSplitterTaskTest": of("testSplitTaskWhenTopicJustOne", "testLoadBalancerNamespaceMaximumBundles"),
    "impl.ModularLoadManagerImplTest": of(
        "testCandidateConsistency",
        "testEvenBundleDistribution",
        "testBrokerAffinity",
        "testMaxTopicDistributionToBroker",
        "testLoadShedding",
        "testUnloadBundleMetric",
        "testNamespaceIsolationPoliciesForPrimaryAndSecondaryBrokers",
        "testLoadSheddingWithNamespaceIsolationPolicies",
        "testRemoveNonExistBundleData",
        "testRepeatSplitBundle",
        "testBundleDataDefaultValue",
        testBrokerAffinityLookupUsesFullBundleName=SERVER,
        testFilterBundlesWhileWritingToMetadataStore=REPORT,
        testNeedBrokerDataUpdate=REPORT,
        testBrokerStopCacheUpdate=SERVER,
        testOwnBrokerZnodeByMultipleBroker=SERVER,
        testRemoveDeadBrokerTimeAverageData=REPORT,
    ),
    "AntiAffinityNamespaceGroupTest": of(
        "testAntiAffinityNamespaceFilteringWithDomain",
        "testAntiAffinityNamespaceFilteringWithoutDomain",
        "testBrokerSelectionForAntiAffinityGroup",
        "testLoadSheddingUtilWithAntiAffinityNamespace",
        "testLoadSheddingWithAntiAffinityNamespace",
        testClusterDomain=EMPTY,
    ),
    "extensions.AntiAffinityNamespaceGroupExtensionTest": of(
        "testAntiAffinityGroupPolicyFilter",
        "testAntiAffinityNamespaceFilteringWithDomain",
        "testAntiAffinityNamespaceFilteringWithoutDomain",
        "testBrokerSelectionForAntiAffinityGroup",
        "testLoadSheddingUtilWithAntiAffinityNamespace",
        testLoadSheddingWithAntiAffinityNamespace=EMPTY,
        testClusterDomain=EMPTY,
    ),
    "extensions.scheduler.TransferShedderTest": of(
        "testEmptyBrokerLoadData",
        "testNoOwnerLoadData",
        "testEmptyTopBundlesLoadData",
        "testOutDatedLoadData",
        "testRecentlyUnloadedBrokers",
        "testRecentlyUnloadedBundles",
        "testSheddingExcludedNamespaces",
        "testBundlesWithIsolationPolicies",
        "testBundlesWithAntiAffinityGroup",
        "testFilterHasException",
        "testIsLoadBalancerSheddingBundlesWithPoliciesEnabled",
        "testTargetStd",
        "testSingleTopBundlesLoadData",
        "testBundleThroughputLargerThanOffloadThreshold",
        "testZeroBundleThroughput",
        "testTargetStdAfterTransfer",
        "testUnloadBundlesGreaterThanTargetThroughput",
        "testSkipBundlesGreaterThanTargetThroughputAfterSplit",
        "testUnloadBundlesLessThanTargetThroughputAfterSplit",
        "testUnloadBundlesGreaterThanTargetThroughputAfterSplit",
        "testMinBrokerWithLowTraffic",
        "testMinBrokerWithLowerLoadThanAvg",
        "testMaxNumberOfTransfersPerShedderCycle",
        "testLoadBalancerSheddingConditionHitCountThreshold",
        "testRemainingTopBundles",
        "testLoadMoreThan100",
        "testRandomLoad",
        "testOverloadOutlier",
        "testUnderloadOutlier",
        "testRandomLoadStats",
        "testHighVarianceLoadStats",
        "testLowVarianceLoadStats",
        testGetAvailableBrokersFailed=FAILS,
    ),
    "extensions.scheduler.UnloadSchedulerTest": of(
        "testDisableLoadBalancer",
        testExecuteSuccess=CARRIED_OUT,
        testExecuteMoreThenOnceWhenFirstNotDone=CARRIED_OUT,
        testNotChannelOwner=CARRIED_OUT,
    ),
    "extensions.scheduler.SplitSchedulerTest": of(
        "testDisableLoadBalancer", testExecuteSuccess=CARRIED_OUT, testExecuteFailure=CARRIED_OUT
    ),
    "extensions.strategy.LeastResourceUsageWithWeightTest": of(
        "testSelect", "testArithmeticException", "testNoLoadDataBrokers"
    ),
    "extensions.strategy.DefaultNamespaceBundleSplitStrategyTest": of(
        "testNamespaceBundleSplitConditionThreshold",
        "testNotEnoughTopics",
        "testNamespaceMaximumBundles",
        "testEmptyBundleStats",
        "testNoBundleOwner",
        "testSplittingBundle",
        "testMaxMsgRate",
        "testMaxTopics",
        "testMaxSessions",
        "testMaxBandwidthMbytes",
        testError=FAILS,
    ),
    "extensions.strategy.CustomBrokerSelectionStrategyTest": of(
        testSingleBrokerSelected="a strategy of the test's own"
    ),
    "extensions.models.TopKBundlesTest": of(
        "testTopBundlesLoadData",
        "testSystemNamespace",
        "testSheddingExcludedNamespaces",
        "testZeroMsgThroughputBundleStats",
        "testIsolationPolicy",
        "testAntiAffinityGroupPolicy",
        "testLoadBalancerSheddingBundlesWithPoliciesEnabledConfig",
        "testPartitionSort",
        "testPartitionSortCompareToContractViolationIssue",
    ),
    "extensions.data.BrokerLoadDataTest": of(
        "testUpdateBySystemResourceUsage", testUpdateByBrokerLoadData="a copy of load data"
    ),
    "extensions.data.BrokerLookupDataTest": of(testConstructors=SERVER),
    "extensions.filter.BrokerIsolationPoliciesFilterTest": of(
        "testFilterWithNamespaceIsolationPoliciesForPrimaryAndSecondaryBrokers",
        "testFilterWithPersistentOrNonPersistentDisabled",
    ),
    "extensions.filter.BrokerLoadManagerClassFilterTest": of("test"),
    "extensions.filter.BrokerMaxTopicCountFilterTest": of("test"),
    "extensions.filter.BrokerVersionFilterTest": of(
        "testFilterEmptyBrokerList", "testDisabledFilter", "testFilter", "testInvalidVersionString"
    ),
    "extensions.reporter.BrokerLoadDataReporterTest": of("testGenerate", testReport=REPORT, testTombstone=REPORT),
    "extensions.reporter.TopBundleLoadDataReporterTest": of(
        "testGenerateLoadData",
        testZeroUpdatedAt=REPORT,
        testReportForce=REPORT,
        testReport=REPORT,
        testTombstone=REPORT,
    ),
    "extensions.ExtensibleLoadManagerImplTest": of(
        "testSelectBrokerForSheddingExcludedNamespaces",
        "testFilterHasException",
        "testMoreThenOneFilter",
        "testSplitBundleAdminAPI",
        "testSplitBundleWithSpecificPositionAdminAPI",
        testFilter="a filter of the test's own",
        **dict.fromkeys(
            (
                "testAssignInternalTopic",
                "testAssign",
                "testLookupOptions",
                "testCheckOwnershipAsync",
                "testUnloadUponTopicLookupFailure",
                "testUnloadAdminAPI",
                "testNamespaceOwnershipListener",
                "testTransferClientReconnectionWithoutLookup",
                "testUnloadClientReconnectionWithLookup",
                "testOptimizeUnloadDisable",
                "testDeleteNamespaceBundle",
                "testDeleteNamespace",
                "testCheckOwnershipPresentWithSystemNamespace",
                "testDeployAndRollbackLoadManager",
                "testLoadBalancerServiceUnitTableViewSyncer",
                "testRoleChangeIdempotency",
                "testHandleNoChannelOwner",
                "testRoleChange",
                "testGetMetrics",
                "testDisableBroker",
                "testListTopic",
                "testGetOwnedServiceUnitsAndGetOwnedNamespaceStatus",
                "testGetOwnedServiceUnitsWhenLoadManagerNotStart",
                "testTryAcquiringOwnership",
                "testHealthcheck",
                "compactionScheduleTest",
                "testSystemNonPersistentTopicSchemaCompatibility",
                "testMonitorBrokerRegistry",
            ),
            SERVER,
        ),
    ),
    "FlowOrQpsEquallyDivideBundleSplitAlgorithmTest": of("testSplitBundleByFlowOrQps", "testFirstPositionIsOverLoad"),
    "NamespaceBundleSplitAlgorithmTest": of("testOfMethodReturnCorrectValue"),
    "RangeEquallyDivideBundleSplitAlgorithmTest": of("testGetSplitBoundaryMethodReturnCorrectResult"),
    "SpecifiedPositionsBundleSplitAlgorithmTest": of(
        "testTotalTopicsSizeLessThan1",
        "testSpecifiedPositionsLessThan1",
        "testAlgorithmReturnCorrectResult",
        testEmptyTopicWithForce="the variant that carries out a split decided before; Evenkeel has none",
    ),
    "TopicCountEquallyDivideBundleSplitAlgorithmTest": of(
        "testTopicsSizeLessThan1", "testAlgorithmReturnCorrectResult", testWrongArg="a null argument"
    ),
    "NamespaceBundleTest": of(
        "testConstructor", "testGetBundle", "testCompareTo", "testEquals", "testIncludes", "testToString"
    ),
    "NamespaceBundlesTest": of(
        "testConstructor", "testFindBundle", "testSplitBundles", "testSplitBundleInTwo", "testSplitBundleByFixBoundary"
    ),
    "NamespaceServiceTest": of(
        "testSplitAndOwnBundles",
        "testSplitMapWithRefreshedStatMap",
        "testCreateNamespaceWithDefaultNumberOfBundles",
        "testRemoveOwnershipAndSplitBundle",
        "testSplitBundleAndRemoveOldBundleFromOwnerShipCache",
        "testSplitLargestBundle",
        "testSplitBUndleWithNoBundle",
        "testSplitBundleWithHighestThroughput",
        "testHeartbeatNamespaceMatch",
        "testModularLoadManagerRemoveInactiveBundleFromLoadData",
        "testModularLoadManagerRemoveBundleAndLoad",
        testLoadReportDeserialize=JSON,
        **dict.fromkeys(
            (
                "testIsServiceUnitDisabled",
                "testRemoveOwnershipNamespaceBundle",
                "testUnloadNamespaceBundleFailure",
                "testUnloadNamespaceBundleWithStuckTopic",
                "testCreateLookupResult",
                "testAllowedClustersAtNamespaceLevelShouldBeIncludedInAllowedClustersAtTenantLevel",
                "testNewAllowedClusterAdminAPIAndItsImpactOnReplicationClusterAPI",
                "checkTopicExistsForNonPartitionedTopic",
                "checkTopicExistsForPartitionedTopic",
                "checkTopicExistsForNonExistentNonPartitionedTopic",
                "checkTopicExistsForNonExistentPartitionTopic",
            ),
            SERVER,
        ),
    ),
    "NamespaceCreateBundlesTest": of(
        "testCreateNamespaceWithDefaultBundles",
        testSplitBundleUpdatesLocalPoliciesWithoutOverwriting=STORED,
        testBundleSplitListener=CARRIED_OUT,
    ),
    "admin.AdminApiTest": of(
        "testNamespaceSplitBundle",
        "testNamespaceSplitBundleWithTopicCountEquallyDivideAlgorithm",
        "testNamespacesGetTopicHashPositions",
        "testNamespaceSplitBundleWithSpecifiedPositionsDivideAlgorithm",
        "testNamespaceSplitBundleWithInvalidAlgorithm",
        "testNamespaceSplitBundleWithDefaultTopicCountEquallyDivideAlgorithm",
        "testNamespaceSplitBundleConcurrent",
        "testTopicBundleRangeLookup",
        "testCreateAndDeleteNamespaceWithBundles",
        clusterNamespaceIsolationPolicies=STORED,
        testNamespaceUnloadBundle=CARRIED_OUT,
        testNamespaceBundleUnload=CARRIED_OUT,
    ),
    "admin.AdminApi2Test": of(
        "brokerNamespaceIsolationPoliciesUpdateOnTime",
        "testListOfNamespaceBundles",
        "testInvalidBundleErrorResponse",
        clusterFailureDomain=STORED,
        namespaceAntiAffinity=STORED,
        brokerNamespaceIsolationPolicies=STORED,
        testGetListInBundle=SERVER,
        **dict.fromkeys(
            (
                "testIsolationPolicyUnloadsNSWithAllScope",
                "testIsolationPolicyUnloadsNSWithChangedScope1",
                "testIsolationPolicyUnloadsNSWithChangedScope2",
                "testIsolationPolicyUnloadsNSWithScopeMissing",
                "testIsolationPolicyUnloadsNSWithNoneScope",
                "testIsolationPolicyUnloadsNSWithPrimaryChanged",
            ),
            "unloads that a broker makes when a policy is changed",
        ),
    ),
    "admin.NamespacesTest": of(
        "testGetBundles",
        "testSplitBundles",
        "testSplitBundleWithUnDividedRange",
        "testSplitBundleForMultiTimes",
        "testBundleValidationWithNonExistentNamespace",
        "testBundleValidationAfterSplit",
        testUnloadNamespaces=CARRIED_OUT,
        testUnloadNamespaceWithBundles=CARRIED_OUT,
        testSetAndDeleteNamespaceAntiAffinityGroup=STORED,
        testGetClusterAntiAffinityNamespaces=STORED,
    ),
    "client.api.BrokerServiceLookupTest": of(
        "testSplitUnloadLookupTest", "testModularLoadManagerSplitBundle", "testSkipSplitBundleIfOnlyOneBroker"
    ),
    "cache.BundlesQuotasTest": of(testGetSetDefaultQuota=STORED, testGetSetBundleQuota=STORED),
    "SimpleLoadManagerImplTest": of(
        "testNamespaceBundleStats",
        testLoadReportParsing=JSON,
        testBrokerHostUsage=REPORT,
        testUsage=REPORT,
        **dict.fromkeys(
            (
                "testBasicBrokerSelection",
                "testPrimary",
                "testPrimarySecondary",
                "testResourceDescription",
                "testDoLoadShedding",
                "testEvenBundleDistribution",
            ),
            SIMPLE,
        ),
        testTask=CARRIED_OUT,
        testMetadataServiceNotAvailable=CARRIED_OUT,
        testGetWebSerUrl=SERVER,
        testRedirectOwner=SERVER,
    ),
    "LoadBalancerTest": of(
        "testNamespaceBundleAutoSplit",
        testLeaderElection=SERVER,
        **dict.fromkeys(
            (
                "testLoadReportsWrittenOnMetadataStore",
                "testUpdateLoadReportAndCheckUpdatedRanking",
                "testBrokerRanking",
                "testTopicAssignmentWithExistingBundles",
                "testDynamicNamespaceBundleQuota",
            ),
            SIMPLE,
        ),
    ),
    "impl.PulsarResourceDescriptionTest": of(compareTo=SIMPLE),
    "impl.LinuxBrokerHostUsageImplTest": of(
        checkOverrideBrokerNicSpeedGbps=REPORT, checkOverrideBrokerNics=REPORT, testCpuUsage=REPORT
    ),
    "LinuxInfoUtilsTest": of(testGetCpuUsageForEntireHost=REPORT),
    "LoadReportNetworkLimitTest": of(checkLoadReportNicSpeed=REPORT),
    "pulsar-common LocalBrokerDataTest": of("testLocalBrokerDataDeserialization", "testMaxResourceUsage"),
    "pulsar-common TimeAverageMessageDataTest": of(
        testCompareToContract="order of averages, by which the modular leader chooses what to store"
    ),
    "pulsar-common NamespaceIsolationPolicyImplTest": of(
        "testIsPrimaryOrSecondaryBroker",
        "testFindBrokers",
        testConstructor=STORED,
        testGetPrimaryBrokers=STORED,
        testGetSecondaryBrokers=STORED,
        testShouldFailover="load factors of brokers, which no load manager of 4.2.4 hands in",
        testGetAvailablePrimaryBrokers="load factors of brokers, which no load manager of 4.2.4 hands in",
    ),
    "pulsar-common NamespaceIsolationPoliciesTest": of(
        "testGetNamespaceIsolationPolicyByNamespace",
        "testSetPolicy",
        "testBrokerAssignment",
        testJsonSerialization=JSON,
        testDefaultConstructor=JSON,
        testDeletePolicy=STORED,
        testGetNamespaceIsolationPolicyByName=STORED,
    ),
    "pulsar-common MinAvailablePolicyTest": of("testMinAvailablePolicty"),
    "pulsar-common TopicNameTest": of(
        "topic",
        "testTopicNameWithoutCluster",
        "testShortTopicName",
        "testTwoKeyWordPartition",
        testDecodeEncode="names of ledgers",
        testFromPersistenceNamingEncoding="names of ledgers",
    ),
}
