"""The manifests against Kubernetes' own schemas, and against each other: nothing is named that there is not."""

import json
import re
from typing import Any

import kubernetes_validate
import pytest

from evenkeel.cli import parser
from tests.docker.container_files import (
    CHECKOUT,
    HEALTH_IN_IMAGE,
    IMAGES,
    LANDING_IN_IMAGE,
    MANIFESTS,
    NGINX,
    PAGE,
    SHARE_IN_IMAGE,
    SPARK_PORT,
    TLS_PORT,
    USER,
    VALUES,
    containers,
    in_yaml,
    objects,
    stages,
    values_of,
)

KUBERNETES = "1.37"


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {found["metadata"]["name"]: found for found in objects() if found["kind"] == kind}


def pod_labels() -> list[dict[str, str]]:
    return [found["spec"]["template"]["metadata"]["labels"] for found in of_kind("Deployment").values()]


def selects(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


@pytest.mark.parametrize("found", objects(), ids=lambda found: f"{found['kind']}-{found['metadata']['name']}")
def test_the_schema_of_its_kind_has_nothing_to_say(found: dict[str, Any]) -> None:
    kubernetes_validate.validate(found, KUBERNETES, strict=True)


def test_a_word_that_no_schema_knows_is_found() -> None:
    found = of_kind("Deployment")["evenkeel-spark"]
    found["spec"]["strategy"]["typo"] = "Recreate"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(found, KUBERNETES, strict=True)


def test_there_are_the_objects_that_the_page_tells_of() -> None:
    assert {path.stem for path in MANIFESTS} == {"agent", "exporter", "lake", "landing", "spark"}
    assert set(of_kind("Deployment")) == {"evenkeel-agent-east", "evenkeel-exporter", "evenkeel-spark"}
    names = [(found["kind"], found["metadata"]["name"]) for found in objects()]
    assert len(names) == len(set(names))


def test_the_single_writer_is_never_two() -> None:
    for name in ("evenkeel-spark", "evenkeel-agent-east"):
        spec = of_kind("Deployment")[name]["spec"]
        assert spec["replicas"] == 1
        assert spec["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("name", of_kind("Deployment"))
def test_a_deployment_selects_its_pods_and_nobody_elses(name: str) -> None:
    found = of_kind("Deployment")[name]
    selector = found["spec"]["selector"]["matchLabels"]
    assert found["metadata"]["labels"] == found["spec"]["template"]["metadata"]["labels"]
    assert [selects(selector, labels) for labels in pod_labels()].count(True) == 1


@pytest.mark.parametrize("name", of_kind("Service"))
def test_a_service_leads_to_a_port_that_a_pod_has(name: str) -> None:
    service = of_kind("Service")[name]
    (deployment,) = [
        found for found in of_kind("Deployment").values()
        if selects(service["spec"]["selector"], found["spec"]["template"]["metadata"]["labels"])
    ]  # fmt: skip
    ports = {port["name"]: port["containerPort"] for one in containers(deployment) for port in one.get("ports", [])}
    for port in service["spec"]["ports"]:
        assert ports[port["targetPort"]] == port["port"]


def test_every_pod_has_a_policy_for_both_directions_that_lets_in_what_its_service_leads_to() -> None:
    policies = of_kind("NetworkPolicy")
    for labels in pod_labels():
        (policy,) = [
            found for found in policies.values() if selects(found["spec"]["podSelector"]["matchLabels"], labels)
        ]
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        services = [found for found in of_kind("Service").values() if selects(found["spec"]["selector"], labels)]
        let_in = [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
        assert let_in == [port["port"] for service in services for port in service["spec"]["ports"]]
        assert all(rule["from"] for rule in policy["spec"]["ingress"])
        assert all(rule["to"] and rule["ports"] for rule in policy["spec"]["egress"])
        anywhere = [block for block in values_of(policy, "ipBlock") if block["cidr"] == "0.0.0.0/0"]
        assert all("169.254.0.0/16" in block["except"] for block in anywhere)


def test_only_what_runs_airflows_tasks_reaches_spark() -> None:
    (rule,) = of_kind("NetworkPolicy")["evenkeel-spark"]["spec"]["ingress"]
    (peer,) = rule["from"]
    assert peer["podSelector"]["matchLabels"] == {"tier": "airflow"}
    (expression,) = peer["podSelector"]["matchExpressions"]
    assert expression == {"key": "component", "operator": "In", "values": ["scheduler", "worker"]}


@pytest.mark.parametrize("name", of_kind("Deployment"))
def test_a_pod_has_no_rights_and_writes_to_its_volumes_alone(name: str) -> None:
    deployment = of_kind("Deployment")[name]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == USER
    assert pod["automountServiceAccountToken"] is False
    assert pod["serviceAccountName"] in of_kind("ServiceAccount")
    volumes = {volume["name"] for volume in pod["volumes"]}
    mounted = set()
    for container in containers(deployment):
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"requests", "limits"} <= set(container["resources"])
        mounted |= {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == volumes
    writable = {"emptyDir", "persistentVolumeClaim"}
    for container in containers(deployment):
        if container["image"].startswith("registry.example/evenkeel-") and "initContainers" not in pod:
            mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            for path in stages()["agent"].words("VOLUME"):
                (volume,) = [volume for volume in pod["volumes"] if volume["name"] == mounts[path]]
                assert writable & set(volume)


def test_images_are_those_of_the_dockerfile() -> None:
    found = {one["image"] for deployment in of_kind("Deployment").values() for one in containers(deployment)}
    our_own = {re.fullmatch(r"registry\.example/evenkeel-(\w+):VERSION", image) for image in found}
    assert {match[1] for match in our_own if match} == set(IMAGES)
    assert len(found) == len(IMAGES) + 1
    values = in_yaml(VALUES)
    assert values["defaultAirflowRepository"] == "registry.example/evenkeel-airflow"
    assert f"apache-airflow=={values['airflowVersion']} \\\n" in (CHECKOUT / "requirements.txt").read_text()


def test_the_agents_arguments_are_those_of_its_command() -> None:
    (container,) = containers(of_kind("Deployment")["evenkeel-agent-east"])
    _program, *words = stages()["agent"].words("ENTRYPOINT")
    assert "command" not in container
    given = parser(words).parse_args([*words, *container["args"]])
    names = {variable["name"] for variable in container["env"]}
    assert f"{given.token_env}_FILE" in names
    assert f"EVENKEEL_KEYS_QUEUE_{given.cluster.upper()}_FILE" in names
    (mount,) = [one["mountPath"] for one in container["volumeMounts"] if one["name"] == "secrets"]
    paths = [given.ca_file, *(one["value"] for one in container["env"] if one["name"].endswith("_FILE"))]
    assert all(path.startswith(f"{mount}/") for path in paths)
    pod = of_kind("Deployment")["evenkeel-agent-east"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > given.longest_request + 30


def test_the_exporters_command_is_one_that_there_is() -> None:
    (container,) = of_kind("Deployment")["evenkeel-exporter"]["spec"]["template"]["spec"]["containers"]
    program, *words = container["command"]
    assert program == "evenkeel"
    given = parser(words).parse_args(words)
    assert given.listen.endswith(f":{container['ports'][0]['containerPort']}")


def test_probes_ask_the_script_of_the_image() -> None:
    commands = [
        probe["exec"]["command"]
        for deployment in of_kind("Deployment").values()
        for probe in values_of(deployment, "startupProbe", "livenessProbe", "readinessProbe")
        if "exec" in probe
    ]
    asked = {" ".join(command) for command in commands}
    assert asked == {f"python {HEALTH_IN_IMAGE} agent", f"python {HEALTH_IN_IMAGE} port {SPARK_PORT}"}


def test_nginx_ends_tls_on_the_services_port_and_hands_on_to_the_servers() -> None:
    text = NGINX.read_text(encoding="utf-8")
    assert f"listen {TLS_PORT} ssl http2;" in text
    assert f"grpc_pass grpc://127.0.0.1:{SPARK_PORT};" in text
    assert of_kind("Service")["evenkeel-spark"]["spec"]["ports"][0]["port"] == TLS_PORT
    tls = containers(of_kind("Deployment")["evenkeel-spark"])[1]
    mounts = {mount["name"]: mount["mountPath"] for mount in tls["volumeMounts"]}
    assert mounts["proxy"] == "/etc/nginx/nginx.conf"
    assert f"ssl_certificate {mounts['tls']}/tls.crt;" in text
    assert f"ssl_certificate_key {mounts['tls']}/tls.key;" in text
    written = re.findall(r"(?:pid|_temp_path) (\S+);", text)
    assert len(written) == 6
    assert all(path.startswith(f"{mounts['tls-tmp']}/") for path in written)


def test_airflow_gets_the_dags_of_its_image_as_a_bundle_and_writes_where_it_may() -> None:
    values = in_yaml(VALUES)
    environment = {one["name"]: one["value"] for one in values["env"]}
    (bundle,) = json.loads(environment["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"])
    assert bundle["kwargs"] == {"path": f"{SHARE_IN_IMAGE}/dags"}
    assert values["airflowHome"] == stages()["airflow"].settings("ENV")["AIRFLOW_HOME"]
    assert values["uid"] == values["gid"] == values["securityContexts"]["pod"]["runAsUser"] == USER
    assert values["securityContexts"]["containers"]["readOnlyRootFilesystem"] is True
    mounts = {mount["mountPath"]: mount["name"] for mount in values["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in values["volumes"]}
    assert set(mounts.values()) == set(volumes)
    for path in stages()["airflow"].words("VOLUME"):
        assert "emptyDir" in volumes[mounts[path]]
    for name in ("EVENKEEL_CONFIG", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"):
        assert environment[name].rpartition("/")[0] in mounts
    for part in ("scheduler", "dagProcessor", "triggerer"):
        assert values[part]["livenessProbe"]["command"][:3] == ["airflow", "jobs", "check"]
        assert values[part]["logGroomerSidecar"]["enabled"] is False


def test_spark_reads_the_snapshots_where_tasks_land_them() -> None:
    """A task hands Spark the path of what it has landed, so that both mount one volume that several machines can."""
    spark = of_kind("Deployment")["evenkeel-spark"]
    values = in_yaml(VALUES)
    server = next(one for one in containers(spark) if one["name"] == "spark")
    given = {mount["mountPath"]: mount for mount in server["volumeMounts"]}[LANDING_IN_IMAGE]
    taken = {mount["mountPath"]: mount for mount in values["volumeMounts"]}[LANDING_IN_IMAGE]
    assert (given.get("readOnly"), taken.get("readOnly")) == (True, None)
    claims = []
    for mount, volumes in ((given, spark["spec"]["template"]["spec"]["volumes"]), (taken, values["volumes"])):
        (volume,) = (volume for volume in volumes if volume["name"] == mount["name"])
        claims.append(volume["persistentVolumeClaim"]["claimName"])
    assert claims[0] == claims[1]
    assert of_kind("PersistentVolumeClaim")[claims[0]]["spec"]["accessModes"] == ["ReadWriteMany"]
    assert f"{LANDING_IN_IMAGE} " in " ".join(stages()["image"].all_of("RUN"))
    assert f'landing = "{LANDING_IN_IMAGE}/' in PAGE.read_text(encoding="utf-8")


def test_every_secret_and_map_that_is_named_stands_on_the_page() -> None:
    everything = [*objects(), in_yaml(VALUES)]
    secrets = {name for found in everything for name in values_of(found, "secretName", "metadataSecretName")}
    secrets |= {name for key, name in in_yaml(VALUES).items() if key.endswith("SecretName") or key == "jwtSecretName"}
    references = list(values_of(everything, "secretRef", "configMapRef", "configMap"))
    named = secrets | {one["name"] for one in references}
    named |= set(re.findall(r"name: (evenkeel-\S+)", in_yaml(VALUES)["extraEnvFrom"]))
    assert len(named) >= 13
    told = set(re.findall(r"`(evenkeel-[a-z-]+)`", PAGE.read_text(encoding="utf-8")))
    assert named - told == set()
    claims = {claim["claimName"] for claim in values_of(everything, "persistentVolumeClaim")}
    assert claims <= set(of_kind("PersistentVolumeClaim"))
