import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { suite, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { agentFlags } from '../../../src/agent/flags.ts';
import { parseAgentOptions } from '../../../src/agent/index.ts';
import { type ResourceType, resources } from '../../../src/api/index.ts';

/** The manifests fit the program: its arguments parse, what it opens is mounted, what it may use is in its role. */

interface Mount {
  readonly name: string;
  readonly mountPath: string;
  readonly mountPropagation?: string;
  readonly readOnly?: boolean;
}

const read = (file: string) =>
  parseAllDocuments(readFileSync(path.join('daemonset', file), 'utf8')).map((item) => item.toJS());
const [daemonSet] = read('base/daemonset.yaml');
const pod = daemonSet.spec.template.spec;
const [container] = pod.containers;
const mounts: Mount[] = container.volumeMounts;

/** The mount that a path is on. */
function mountOf(file: string): Mount {
  const found = mounts
    .filter(({ mountPath }) => file === mountPath || file.startsWith(`${mountPath}/`))
    .sort((a, b) => b.mountPath.length - a.mountPath.length)[0];
  assert.ok(found, `${file} is not mounted`);
  return found;
}

function options() {
  const variables: Record<string, string> = { NODE_NAME: 'node1', MY_POD_IP: '10.0.0.1' };
  const args = container.args.map((arg: string) => arg.replace(/\$\((\w+)\)/, (_all, name) => variables[name] ?? ''));
  const parsed = parseAgentOptions(args, { hostName: 'pod', nodeName: 'node1' });
  assert.ok(parsed);
  return { parsed, args: args as string[] };
}

suite('the DaemonSet', () => {
  test("keeps compiled code in the agent's own folder, which outlives the pod and which only root writes", () => {
    const cache = container.env.find(({ name }: { name: string }) => name === 'NODE_COMPILE_CACHE')?.value;
    const { parsed } = options();
    assert.equal(path.dirname(cache), parsed.privateDir);
    const mount = mountOf(cache);
    assert.notEqual(mount.readOnly, true);
    const volume = pod.volumes.find(({ name }: { name: string }) => name === mount.name);
    // Made by the kubelet, for root: 0755.
    assert.equal(volume.hostPath.type, 'DirectoryOrCreate');
  });

  test('starts the program with arguments that it takes, and names its node and its address', () => {
    const { parsed } = options();
    assert.deepEqual([parsed.nodeName, parsed.podIp], ['node1', '10.0.0.1']);
    assert.deepEqual(container.command, ['virt-handler']);
  });

  const flags = Object.entries(agentFlags).flatMap(([name, { fallback, help }]) =>
    typeof fallback === 'string' && fallback.startsWith('/') && !help.startsWith('accepted, not used')
      ? [[name, fallback] as const]
      : [],
  );
  for (const [name, file] of flags) {
    test(`mounts what --${name} names: ${file}`, () => {
      const { name: volume } = mountOf(file);
      assert.ok(pod.volumes.some((given: { name: string }) => given.name === volume));
    });
  }

  test('brings the program no private key but those that it reads, and those for root only', () => {
    const text = JSON.stringify(options().parsed);
    const read = [...text.matchAll(/"(\/etc\/virt-handler\/[^/"]+)\/[^"]+"/g)].map(([, dir]) => dir);
    const secrets = pod.volumes.filter(({ secret }: { secret?: object }) => secret);
    const mounted = mounts.filter(({ name }) => secrets.some((volume: { name: string }) => volume.name === name));
    assert.deepEqual(
      mounted.map(({ mountPath }) => mountPath),
      [...new Set(read)],
    );
    assert.equal(secrets.length, mounted.length);
    for (const { secret } of secrets) assert.equal(secret.defaultMode, 0o400);
  });

  test('lets the program write to a directory of the host only where the table of the guide says what it writes', () => {
    const guide = readFileSync('daemonset/README.md', 'utf8');
    const [, table = ''] = guide.split('## Volumes');
    const rows = table.split('\n').filter((line) => line.startsWith('| `/'));
    const reported = rows
      .map((line) => line.split('|').map((cell) => cell.trim()))
      .map(([, inside, , way]) => [inside, way]);
    const given = mounts.map(({ mountPath, readOnly }) => [`\`${mountPath}\``, readOnly ? 'reads' : 'writes']);
    assert.deepEqual(reported.sort(), given.sort());
  });

  test('differs from the arguments of virt-operator v1.9.0, after replace.sh, by one that the program takes, too', () => {
    const { args } = options();
    const given = [...args, '--migration-cn-types', 'migration'];
    assert.ok(parseAgentOptions(given, { hostName: 'pod', nodeName: 'node1' }));
  });

  test('mounts the pods at the short path where the program looks for launchers', () => {
    const { parsed } = options();
    const { name } = mountOf(parsed.podsDir);
    const { hostPath } = pod.volumes.find((volume: { name: string }) => volume.name === name);
    assert.equal(hostPath.path, agentFlags['kubelet-pods-dir'].fallback);
  });

  test('shows the host what the agent mounts, and the agent what the host mounts', () => {
    const { parsed } = options();
    assert.equal(mountOf(parsed.shareDir).mountPropagation, 'Bidirectional');
    assert.equal(mountOf(agentFlags['kubelet-root'].fallback).mountPropagation, 'HostToContainer');
    assert.equal(mountOf(parsed.podsDir).mountPropagation, 'HostToContainer');
  });

  test('lets the program write where it writes, and lets it not write its certificates', () => {
    const { parsed } = options();
    for (const dir of [
      parsed.shareDir,
      parsed.privateDir,
      '/var/lib/kubelet/device-plugins',
      '/var/lib/kubelet/seccomp',
    ])
      assert.notEqual(mountOf(dir).readOnly, true, dir);
    for (const { mountPath, readOnly } of mounts.filter((mount) => mount.mountPath.startsWith('/etc/')))
      assert.equal(readOnly, true, mountPath);
  });

  test('has the capability files written before the agent starts, where the agent reads them', () => {
    const [first] = pod.initContainers;
    const { name, mountPath, readOnly } = mountOf('/var/lib/kubevirt-node-labeller');
    assert.deepEqual(first.volumeMounts, [{ name, mountPath }]);
    assert.equal(readOnly, true);
  });

  test('shares the process ids of the host, as a way to the host and to launchers', () =>
    assert.equal(pod.hostPID, true));

  test('declares the ports that it gives to the program, and probes one of them', () => {
    const { args } = options();
    const value = (flag: string) => Number(args[args.indexOf(flag) + 1]);
    const ports = Object.fromEntries(
      container.ports.map(({ name, containerPort }: { name: string; containerPort: number }) => [name, containerPort]),
    );
    const given = {
      metrics: value('--port'),
      consoles: value('--console-server-port'),
      vmstats: value('--vmstats-server-port'),
    };
    assert.deepEqual(ports, given);
    for (const probe of [container.livenessProbe, container.readinessProbe])
      assert.deepEqual([probe.httpGet.scheme, probe.httpGet.port], ['HTTPS', given.metrics]);
    assert.notEqual(container.livenessProbe.httpGet.path, container.readinessProbe.httpGet.path);
  });

  test('lets the program leave before it is killed', () => {
    const { parsed } = options();
    assert.ok(pod.terminationGracePeriodSeconds * 1000 >= parsed.gracefulShutdownMs + 10_000);
  });

  test('keeps every label that other programs of KubeVirt look for', () => {
    const labels = daemonSet.spec.template.metadata.labels;
    assert.equal(labels['kubevirt.io'], 'virt-handler');
    assert.equal(labels['prometheus.kubevirt.io'], 'true');
    const [service] = read('base/metrics-service.yaml');
    for (const [key, text] of Object.entries(service.spec.selector)) assert.equal(labels[key], text);
    assert.ok(container.ports.some(({ name }: { name: string }) => name === service.spec.ports[0].targetPort));
  });
});

suite('beside an installation of virt-operator', () => {
  const { matchLabels } = daemonSet.spec.selector;
  const upstream = { 'kubevirt.io': 'virt-handler' };

  test('the DaemonSet has another selector, which no API server lets anybody change', () => {
    assert.notDeepEqual(matchLabels, upstream);
    for (const [key, text] of Object.entries(matchLabels))
      assert.equal(daemonSet.spec.template.metadata.labels[key], text);
  });

  test("its pods go to no node where an agent of upstream's is, and beside their own kind at an update", () => {
    const [term, ...others] = pod.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution;
    assert.deepEqual(others, []);
    assert.deepEqual([term.topologyKey, term.namespaceSelector], ['kubernetes.io/hostname', {}]);
    interface Expression {
      readonly key: string;
      readonly operator: string;
      readonly values: readonly string[];
    }
    const isKeptAway = (labels: Record<string, string>) =>
      term.labelSelector.matchExpressions.every(
        ({ key, operator, values }: Expression) => (operator === 'In') === values.includes(labels[key] ?? ''),
      );
    assert.equal(isKeptAway(upstream), true);
    assert.equal(isKeptAway(daemonSet.spec.template.metadata.labels), false);
  });

  test('removing the agent removes nothing that VMs or others live in', () => {
    const files: string[] = read('base/kustomization.yaml')[0].resources;
    const kinds = files.flatMap((file) => read(`base/${file}`).map(({ kind }) => kind));
    for (const kind of ['Namespace', 'CustomResourceDefinition', 'PriorityClass']) assert.ok(!kinds.includes(kind));
  });

  test("no role has the name of one of upstream's", () => {
    const roles = read('base/rbac.yaml').filter(({ kind }) => kind !== 'ServiceAccount');
    assert.deepEqual([...new Set(roles.map(({ metadata }) => metadata.name))], ['kubevirt-handler-typescript']);
  });
});

test('there is a definition of each kind of KubeVirt that the programs work with, as they ask for it', () => {
  const files = readdirSync(path.join('daemonset', 'prerequisites', 'crds')).map(
    (file) => `prerequisites/crds/${file}`,
  );
  const defined = files.flatMap(read).map(({ spec }) => {
    const [{ name, subresources = {} }] = spec.versions;
    return `${spec.names.plural}.${spec.group}/${name} ${spec.names.kind} ${spec.scope} ${Object.keys(subresources)}`;
  });
  const ofOthers = ['cdi.kubevirt.io'];
  const kinds: readonly ResourceType[] = Object.values(resources).filter(
    ({ group }) => group.endsWith('kubevirt.io') && !ofOthers.includes(group),
  );
  const scaled = ['VirtualMachineInstanceReplicaSet', 'VirtualMachinePool'];
  const needed = kinds.map(({ group, version, resource, kind, namespaced }) => {
    const parts = group.startsWith('instancetype.') || kind === 'VirtualMachineInstance' ? '' : 'status';
    const scale = scaled.includes(kind) ? ',scale' : '';
    return `${resource}.${group}/${version} ${kind} ${namespaced ? 'Namespaced' : 'Cluster'} ${parts}${scale}`;
  });
  assert.ok(needed.length > 10, `${needed.length}`);
  assert.deepEqual(defined.sort(), needed.sort());
});

test('every manifest of a folder is named by its kustomization', () => {
  for (const dir of [
    'base',
    'prerequisites',
    'policies',
    'components/apparmor',
    'components/migration-relay',
    'components/service-monitor',
    'overlays/least-privilege',
    'overlays/migration-relay',
    'overlays/tight-rights',
    'overlays/replace-upstream',
  ]) {
    const [kustomization] = read(`${dir}/kustomization.yaml`);
    const patches = (kustomization.patches ?? []).map((patch: { path: string }) => patch.path);
    const named = [...(kustomization.resources ?? []), ...patches];
    const files = readdirSync(path.join('daemonset', dir), { recursive: true }).map(String);
    const yaml = files.filter((file) => file.endsWith('.yaml') && file !== 'kustomization.yaml').sort();
    assert.deepEqual(yaml, named.filter((file: string) => !file.startsWith('..')).sort(), dir);
  }
});

test('the tight rights are a part of the stock rights', () => {
  const granted = (file: string) =>
    read(file)
      .filter(({ kind }) => kind === 'ClusterRole')
      .flatMap(({ rules }) => rules)
      .flatMap(({ apiGroups, resources, verbs }) =>
        apiGroups.flatMap((group: string) =>
          resources.flatMap((name: string) => verbs.map((verb: string) => `${verb} ${group}/${name}`)),
        ),
      );
  const stock = new Set(granted('base/rbac.yaml'));
  const tight = granted('overlays/tight-rights/cluster-role.yaml');
  assert.ok(tight.length > 0 && tight.length < stock.size);
  assert.deepEqual(
    tight.filter((right) => !stock.has(right)),
    [],
  );
});

test('the image of the manifests is the one that image/build.sh makes of this version', () => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
  const [{ images }] = read('base/kustomization.yaml');
  assert.deepEqual(images[0], { name: 'virt-handler', newName: 'localhost/virt-handler', newTag: version });
  assert.match(
    readFileSync('daemonset/overlays/replace-upstream/kubevirt.yaml', 'utf8'),
    new RegExp(`virt-handler:${version}"`),
  );
});
