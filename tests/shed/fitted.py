"""Settings with which every shedder has something to do in a small cluster."""

# So low that three small brokers have something to shed.
FITTED: dict[str, dict[str, object]] = {
    "OverloadShedder": {"loadBalancerBrokerOverloadedThresholdPercentage": 30},
    "ThresholdShedder": {
        "loadBalancerBrokerThresholdShedderPercentage": 5,
        "loadBalancerHistoryResourcePercentage": 0.0,
        "loadBalancerBundleUnloadMinThroughputThreshold": 0.01,
    },
    "UniformLoadShedder": {"loadBalancerMsgRateDifferenceShedderThreshold": 10, "minUnloadMessage": 10},
    "AvgShedder": {
        "loadBalancerLoadPlacementStrategy": "AvgShedder",
        "loadBalancerAvgShedderLowThreshold": 5,
        "loadBalancerAvgShedderHitCountLowThreshold": 1,
        "loadBalancerAvgShedderHitCountHighThreshold": 1,
        "minUnloadMessage": 10,
        "loadBalancerDistributeBundlesEvenlyEnabled": False,
    },
    "TransferShedder": {},
}
