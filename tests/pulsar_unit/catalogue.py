"""Every test method of Pulsar that was looked at, by class, and why some are not restated.

Names of classes are those below `org.apache.pulsar.broker.loadbalance`, elsewhere those below `org.apache.pulsar`. A
method with `None` is restated in this folder. All come from the jar of tests of pulsar-broker 4.2.4, but for the
classes named `pulsar-common`: that module publishes no jar of its tests.
"""

SIMPLE = "SimpleLoadManagerImpl, which Evenkeel does not have"
REPORT = "what a broker measures, stores or reports, and when"
SERVER = "start, look-up, ownership, leadership or HTTP of a running broker"
CARRIED_OUT = "how a decision is carried out or scheduled"
STORED = "create, read, update and delete of policies or of stored data"
JSON = "reading or writing of JSON"
FAILS = "a call that fails inside the strategy; Evenkeel is given figures and calls nobody"
EMPTY = "states nothing"
CHANGED = "unloads that a broker makes when a policy is changed"
FACTORS = "load factors of brokers, which no load manager of 4.2.4 hands in"


def of(restated: str, **left_out: str) -> dict[str, str | None]:
    """Method -> `None` where it is restated, else the reason why not. `left_out`: names, by the name of a reason above.

    Reasons of a single method are added by `|`.
    """
    reasons = {name: why for why, names in left_out.items() for name in names.split()}
    return dict.fromkeys(restated.split()) | {name: globals()[why] for name, why in reasons.items()}


CLASSES = {
    "impl.ThresholdShedderTest": of(
        "testNoBrokers testCleanCache testBrokersWithNoBundles testBrokerNotReachThreshold "
        "testBrokerReachThreshold testBrokerWithSingleBundle testBrokerWithMultipleBundles "
        "testFilterRecentlyUnloaded testPrintResourceUsage testLowerBoundaryShedding "
        "testLowerBoundarySheddingNoBrokerToOffload testLowerBoundarySheddingBrokerWithOneBundle"
    ),
    "impl.OverloadShedderTest": of(
        "testNoBrokers testBrokersWithNoBundles testBrokerNotOverloaded testBrokerWithSingleBundle "
        "testBrokerWithMultipleBundles testBrokerWithResourceWeight testFilterRecentlyUnloaded "
        "testPrintResourceUsage"
    ),
    "impl.UniformLoadShedderTest": of(
        "testMaxUnloadBundleNumPerShedding testBrokerWithMultipleBundles testOverloadBrokerSelect "
        "testSmallTrafficShedding"
    ),
    "impl.AvgShedderTest": of("testHitHighThreshold testHitLowThreshold testSheddingMultiplePairs"),
    "ModularLoadManagerStrategyTest": of(
        "testAvgShedderWithPreassignedBroker testAvgShedderWithoutPreassignedBroker testLeastLongTermMessageRate "
        "testLeastResourceUsageWithWeight testLeastResourceUsageWithWeightWithArithmeticException "
        "testRoundRobinBrokerSelector testActiveBrokersChange"
    ),
    "impl.LoadManagerSharedTest": of("testRemoveMostServicingBrokersForNamespace"),
    "impl.BrokerLoadManagerClassFilterTest": of("test"),
    "BrokerVersionFilterTest": of("testLatestVersion"),
    "impl.BundleSplitterTaskTest": of("testSplitTaskWhenTopicJustOne testLoadBalancerNamespaceMaximumBundles"),
    "impl.ModularLoadManagerImplTest": of(
        "testCandidateConsistency testEvenBundleDistribution testBrokerAffinity testMaxTopicDistributionToBroker "
        "testLoadShedding testUnloadBundleMetric testNamespaceIsolationPoliciesForPrimaryAndSecondaryBrokers "
        "testLoadSheddingWithNamespaceIsolationPolicies testRemoveNonExistBundleData testRepeatSplitBundle "
        "testBundleDataDefaultValue",
        SERVER=(
            "testBrokerAffinityLookupUsesFullBundleName testBrokerStopCacheUpdate testOwnBrokerZnodeByMultipleBroker"
        ),
        REPORT=(
            "testFilterBundlesWhileWritingToMetadataStore testNeedBrokerDataUpdate testRemoveDeadBrokerTimeAverageData"
        ),
    ),
    "AntiAffinityNamespaceGroupTest": of(
        "testAntiAffinityNamespaceFilteringWithDomain testAntiAffinityNamespaceFilteringWithoutDomain "
        "testBrokerSelectionForAntiAffinityGroup testLoadSheddingUtilWithAntiAffinityNamespace "
        "testLoadSheddingWithAntiAffinityNamespace",
        EMPTY="testClusterDomain",
    ),
    "extensions.AntiAffinityNamespaceGroupExtensionTest": of(
        "testAntiAffinityGroupPolicyFilter testAntiAffinityNamespaceFilteringWithDomain "
        "testAntiAffinityNamespaceFilteringWithoutDomain testBrokerSelectionForAntiAffinityGroup "
        "testLoadSheddingUtilWithAntiAffinityNamespace",
        EMPTY="testLoadSheddingWithAntiAffinityNamespace testClusterDomain",
    ),
    "extensions.scheduler.TransferShedderTest": of(
        "testEmptyBrokerLoadData testNoOwnerLoadData testEmptyTopBundlesLoadData testOutDatedLoadData "
        "testRecentlyUnloadedBrokers testRecentlyUnloadedBundles testSheddingExcludedNamespaces "
        "testBundlesWithIsolationPolicies testBundlesWithAntiAffinityGroup testFilterHasException "
        "testIsLoadBalancerSheddingBundlesWithPoliciesEnabled testTargetStd testSingleTopBundlesLoadData "
        "testBundleThroughputLargerThanOffloadThreshold testZeroBundleThroughput testTargetStdAfterTransfer "
        "testUnloadBundlesGreaterThanTargetThroughput testSkipBundlesGreaterThanTargetThroughputAfterSplit "
        "testUnloadBundlesLessThanTargetThroughputAfterSplit "
        "testUnloadBundlesGreaterThanTargetThroughputAfterSplit testMinBrokerWithLowTraffic "
        "testMinBrokerWithLowerLoadThanAvg testMaxNumberOfTransfersPerShedderCycle "
        "testLoadBalancerSheddingConditionHitCountThreshold testRemainingTopBundles testLoadMoreThan100 "
        "testRandomLoad testOverloadOutlier testUnderloadOutlier testRandomLoadStats testHighVarianceLoadStats "
        "testLowVarianceLoadStats",
        FAILS="testGetAvailableBrokersFailed",
    ),
    "extensions.scheduler.UnloadSchedulerTest": of(
        "testDisableLoadBalancer",
        CARRIED_OUT="testExecuteSuccess testExecuteMoreThenOnceWhenFirstNotDone testNotChannelOwner",
    ),
    "extensions.scheduler.SplitSchedulerTest": of(
        "testDisableLoadBalancer", CARRIED_OUT="testExecuteSuccess testExecuteFailure"
    ),
    "extensions.strategy.LeastResourceUsageWithWeightTest": of(
        "testSelect testArithmeticException testNoLoadDataBrokers"
    ),
    "extensions.strategy.DefaultNamespaceBundleSplitStrategyTest": of(
        "testNamespaceBundleSplitConditionThreshold testNotEnoughTopics testNamespaceMaximumBundles "
        "testEmptyBundleStats testNoBundleOwner testSplittingBundle testMaxMsgRate testMaxTopics testMaxSessions "
        "testMaxBandwidthMbytes",
        FAILS="testError",
    ),
    "extensions.strategy.CustomBrokerSelectionStrategyTest": of("")
    | {"testSingleBrokerSelected": "a strategy of the test's own"},
    "extensions.models.TopKBundlesTest": of(
        "testTopBundlesLoadData testSystemNamespace testSheddingExcludedNamespaces "
        "testZeroMsgThroughputBundleStats testIsolationPolicy testAntiAffinityGroupPolicy "
        "testLoadBalancerSheddingBundlesWithPoliciesEnabledConfig testPartitionSort "
        "testPartitionSortCompareToContractViolationIssue"
    ),
    "extensions.data.BrokerLoadDataTest": of("testUpdateBySystemResourceUsage")
    | {"testUpdateByBrokerLoadData": "a copy of load data"},
    "extensions.data.BrokerLookupDataTest": of("", SERVER="testConstructors"),
    "extensions.filter.BrokerIsolationPoliciesFilterTest": of(
        "testFilterWithNamespaceIsolationPoliciesForPrimaryAndSecondaryBrokers "
        "testFilterWithPersistentOrNonPersistentDisabled"
    ),
    "extensions.filter.BrokerLoadManagerClassFilterTest": of("test"),
    "extensions.filter.BrokerMaxTopicCountFilterTest": of("test"),
    "extensions.filter.BrokerVersionFilterTest": of(
        "testFilterEmptyBrokerList testDisabledFilter testFilter testInvalidVersionString"
    ),
    "extensions.reporter.BrokerLoadDataReporterTest": of("testGenerate", REPORT="testReport testTombstone"),
    "extensions.reporter.TopBundleLoadDataReporterTest": of(
        "testGenerateLoadData", REPORT="testZeroUpdatedAt testReportForce testReport testTombstone"
    ),
    "extensions.ExtensibleLoadManagerImplTest": of(
        "testSelectBrokerForSheddingExcludedNamespaces testFilterHasException testMoreThenOneFilter "
        "testSplitBundleAdminAPI testSplitBundleWithSpecificPositionAdminAPI",
        SERVER=(
            "testAssignInternalTopic testAssign testLookupOptions testCheckOwnershipAsync "
            "testUnloadUponTopicLookupFailure testUnloadAdminAPI testNamespaceOwnershipListener "
            "testTransferClientReconnectionWithoutLookup testUnloadClientReconnectionWithLookup "
            "testOptimizeUnloadDisable testDeleteNamespaceBundle testDeleteNamespace "
            "testCheckOwnershipPresentWithSystemNamespace testDeployAndRollbackLoadManager "
            "testLoadBalancerServiceUnitTableViewSyncer testRoleChangeIdempotency testHandleNoChannelOwner "
            "testRoleChange testGetMetrics testDisableBroker testListTopic "
            "testGetOwnedServiceUnitsAndGetOwnedNamespaceStatus testGetOwnedServiceUnitsWhenLoadManagerNotStart "
            "testTryAcquiringOwnership testHealthcheck compactionScheduleTest "
            "testSystemNonPersistentTopicSchemaCompatibility testMonitorBrokerRegistry"
        ),
    )
    | {"testFilter": "a filter of the test's own"},
    "FlowOrQpsEquallyDivideBundleSplitAlgorithmTest": of("testSplitBundleByFlowOrQps testFirstPositionIsOverLoad"),
    "NamespaceBundleSplitAlgorithmTest": of("testOfMethodReturnCorrectValue"),
    "RangeEquallyDivideBundleSplitAlgorithmTest": of("testGetSplitBoundaryMethodReturnCorrectResult"),
    "SpecifiedPositionsBundleSplitAlgorithmTest": of(
        "testTotalTopicsSizeLessThan1 testSpecifiedPositionsLessThan1 testAlgorithmReturnCorrectResult"
    )
    | {"testEmptyTopicWithForce": "the variant that carries out a split decided before; Evenkeel has none"},
    "TopicCountEquallyDivideBundleSplitAlgorithmTest": of("testTopicsSizeLessThan1 testAlgorithmReturnCorrectResult")
    | {"testWrongArg": "a null argument"},
    "NamespaceBundleTest": of("testConstructor testGetBundle testCompareTo testEquals testIncludes testToString"),
    "NamespaceBundlesTest": of(
        "testConstructor testFindBundle testSplitBundles testSplitBundleInTwo testSplitBundleByFixBoundary"
    ),
    "NamespaceServiceTest": of(
        "testSplitAndOwnBundles testSplitMapWithRefreshedStatMap testCreateNamespaceWithDefaultNumberOfBundles "
        "testRemoveOwnershipAndSplitBundle testSplitBundleAndRemoveOldBundleFromOwnerShipCache "
        "testSplitLargestBundle testSplitBUndleWithNoBundle testSplitBundleWithHighestThroughput "
        "testHeartbeatNamespaceMatch testModularLoadManagerRemoveInactiveBundleFromLoadData "
        "testModularLoadManagerRemoveBundleAndLoad",
        JSON="testLoadReportDeserialize",
        SERVER=(
            "testIsServiceUnitDisabled testRemoveOwnershipNamespaceBundle testUnloadNamespaceBundleFailure "
            "testUnloadNamespaceBundleWithStuckTopic testCreateLookupResult "
            "testAllowedClustersAtNamespaceLevelShouldBeIncludedInAllowedClustersAtTenantLevel "
            "testNewAllowedClusterAdminAPIAndItsImpactOnReplicationClusterAPI checkTopicExistsForNonPartitionedTopic "
            "checkTopicExistsForPartitionedTopic checkTopicExistsForNonExistentNonPartitionedTopic "
            "checkTopicExistsForNonExistentPartitionTopic"
        ),
    ),
    "NamespaceCreateBundlesTest": of(
        "testCreateNamespaceWithDefaultBundles",
        STORED="testSplitBundleUpdatesLocalPoliciesWithoutOverwriting",
        CARRIED_OUT="testBundleSplitListener",
    ),
    "admin.AdminApiTest": of(
        "testNamespaceSplitBundle testNamespaceSplitBundleWithTopicCountEquallyDivideAlgorithm "
        "testNamespacesGetTopicHashPositions testNamespaceSplitBundleWithSpecifiedPositionsDivideAlgorithm "
        "testNamespaceSplitBundleWithInvalidAlgorithm "
        "testNamespaceSplitBundleWithDefaultTopicCountEquallyDivideAlgorithm testNamespaceSplitBundleConcurrent "
        "testTopicBundleRangeLookup testCreateAndDeleteNamespaceWithBundles",
        STORED="clusterNamespaceIsolationPolicies",
        CARRIED_OUT="testNamespaceUnloadBundle testNamespaceBundleUnload",
    ),
    "admin.AdminApi2Test": of(
        "brokerNamespaceIsolationPoliciesUpdateOnTime testListOfNamespaceBundles testInvalidBundleErrorResponse",
        STORED="clusterFailureDomain namespaceAntiAffinity brokerNamespaceIsolationPolicies",
        SERVER="testGetListInBundle",
        CHANGED=(
            "testIsolationPolicyUnloadsNSWithAllScope testIsolationPolicyUnloadsNSWithChangedScope1 "
            "testIsolationPolicyUnloadsNSWithChangedScope2 testIsolationPolicyUnloadsNSWithScopeMissing "
            "testIsolationPolicyUnloadsNSWithNoneScope testIsolationPolicyUnloadsNSWithPrimaryChanged"
        ),
    ),
    "admin.NamespacesTest": of(
        "testGetBundles testSplitBundles testSplitBundleWithUnDividedRange testSplitBundleForMultiTimes "
        "testBundleValidationWithNonExistentNamespace testBundleValidationAfterSplit",
        CARRIED_OUT="testUnloadNamespaces testUnloadNamespaceWithBundles",
        STORED="testSetAndDeleteNamespaceAntiAffinityGroup testGetClusterAntiAffinityNamespaces",
    ),
    "client.api.BrokerServiceLookupTest": of(
        "testSplitUnloadLookupTest testModularLoadManagerSplitBundle testSkipSplitBundleIfOnlyOneBroker"
    ),
    "cache.BundlesQuotasTest": of("", STORED="testGetSetDefaultQuota testGetSetBundleQuota"),
    "SimpleLoadManagerImplTest": of(
        "testNamespaceBundleStats",
        JSON="testLoadReportParsing",
        REPORT="testBrokerHostUsage testUsage",
        SIMPLE=(
            "testBasicBrokerSelection testPrimary testPrimarySecondary testResourceDescription testDoLoadShedding "
            "testEvenBundleDistribution"
        ),
        CARRIED_OUT="testTask testMetadataServiceNotAvailable",
        SERVER="testGetWebSerUrl testRedirectOwner",
    ),
    "LoadBalancerTest": of(
        "testNamespaceBundleAutoSplit",
        SERVER="testLeaderElection",
        SIMPLE=(
            "testLoadReportsWrittenOnMetadataStore testUpdateLoadReportAndCheckUpdatedRanking testBrokerRanking "
            "testTopicAssignmentWithExistingBundles testDynamicNamespaceBundleQuota"
        ),
    ),
    "impl.PulsarResourceDescriptionTest": of("", SIMPLE="compareTo"),
    "impl.LinuxBrokerHostUsageImplTest": of(
        "", REPORT="checkOverrideBrokerNicSpeedGbps checkOverrideBrokerNics testCpuUsage"
    ),
    "LinuxInfoUtilsTest": of("", REPORT="testGetCpuUsageForEntireHost"),
    "LoadReportNetworkLimitTest": of("", REPORT="checkLoadReportNicSpeed"),
    "pulsar-common LocalBrokerDataTest": of("testLocalBrokerDataDeserialization testMaxResourceUsage"),
    "pulsar-common TimeAverageMessageDataTest": of("")
    | {"testCompareToContract": "order of averages, by which the modular leader chooses what to store"},
    "pulsar-common NamespaceIsolationPolicyImplTest": of(
        "testIsPrimaryOrSecondaryBroker testFindBrokers",
        STORED="testConstructor testGetPrimaryBrokers testGetSecondaryBrokers",
        FACTORS="testShouldFailover testGetAvailablePrimaryBrokers",
    ),
    "pulsar-common NamespaceIsolationPoliciesTest": of(
        "testGetNamespaceIsolationPolicyByNamespace testSetPolicy testBrokerAssignment",
        JSON="testJsonSerialization testDefaultConstructor",
        STORED="testDeletePolicy testGetNamespaceIsolationPolicyByName",
    ),
    "pulsar-common MinAvailablePolicyTest": of("testMinAvailablePolicty"),
    "pulsar-common TopicNameTest": of("topic testTopicNameWithoutCluster testShortTopicName testTwoKeyWordPartition")
    | dict.fromkeys(["testDecodeEncode", "testFromPersistenceNamingEncoding"], "names of ledgers"),
}
