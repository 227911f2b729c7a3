import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { type Container, type Pod, parseQuantity } from '../../src/api/index.ts';
import { isRecord } from '../../src/base/index.ts';
import { controllerConfigReader } from '../../src/cluster-config/index.ts';
import { renderLauncherPod } from '../../src/controller/index.ts';
import { type LauncherPodCase, launcherPodCases } from '../fixtures/launcher-pod-cases.ts';

interface Rendered {
  readonly name: string;
  readonly pod?: Pod;
  readonly error?: string;
}

/** Why ours is another one there, by the path of what differs; `*`: whatever follows. */
const departures: readonly (readonly [path: string, why: string])[] = [
  [
    'metadata.annotations.kubevirt.io/memory-overhead-bytes',
    'page tables are reckoned for a guest whose request is not given, too',
  ],
  ['spec.containers.compute.resources.requests.memory', 'the same'],
  ['spec.containers.compute.resources.limits.memory', 'the same'],
  [
    'spec.containers.compute.resources.requests.cpu',
    'a CPU without cores, sockets and threads is one CPU, and milli-units are whole',
  ],
  ['spec.containers.compute.resources.limits.cpu', 'the same, with dedicated CPUs'],
  ['spec.containers.compute.volumeMounts.sl*', 'the launcher reads ACPI tables there'],
  ['spec.containers.compute.volumeMounts.ms*', 'the same'],
  [
    'spec.containers.compute.volumeMounts.container-disks*',
    'is there in both modes, so that a changed gate needs no other launcher',
  ],
  ['spec.volumes.container-disks', 'the same'],
  ['spec.volumes.virt-bin-share-dir', 'is there only where a container uses it'],
  ['spec.nodeSelector.kubernetes.io/arch', 'a VMI without architecture gets that of the cluster'],
];

/** Upstream renders these; ours says what is missing. */
const refused: Readonly<Record<string, RegExp>> = { 'container-path': /containerPath|virtiofs/ };

const renderer = (JSON.parse(process.env.KUBELET_PARTS ?? '{}') as { readonly renderer?: string }).renderer ?? '';
const input = JSON.stringify(launcherPodCases);
const upstream: Rendered[] = JSON.parse(
  execFileSync(renderer, { input, maxBuffer: 2 ** 28, stdio: ['pipe', 'pipe', 'ignore'] }).toString(),
);

/** Differences that no departure is about; of two refusals, none. */
function unexpected(given: LauncherPodCase, theirs: Rendered | undefined): readonly string[] {
  const ours = rendered(given);
  const isRefused = refused[given.name]?.test(ours.error ?? '') === true || theirs?.error !== undefined;
  if (isRefused && ours.error !== undefined) return [];
  if (ours.error !== undefined || theirs?.error !== undefined)
    return [`upstream: ${theirs?.error}, ours: ${ours.error}`];
  const found = differences(comparable(theirs?.pod), comparable(ours.pod), '');
  return found.filter((line) => !departures.some(([path]) => covers(path, line)));
}

for (const [index, given] of launcherPodCases.entries()) {
  test(`the launcher pod of a VMI is upstream's: ${given.name}`, () => {
    assert.deepEqual(unexpected(given, upstream[index]), []);
  });
}

test('each departure is one', () => {
  const found = launcherPodCases.flatMap((given, index) =>
    differences(comparable(upstream[index]?.pod), comparable(rendered(given).pod), ''),
  );
  assert.deepEqual(
    departures.filter(([path]) => !found.some((line) => covers(path, line))),
    [],
  );
});

const covers = (path: string, line: string) =>
  path.endsWith('*') ? line.startsWith(path.slice(0, -1)) : line.startsWith(`${path}: `);

function rendered({ name, vmi, configuration, claims }: LauncherPodCase): Rendered {
  const reader = controllerConfigReader({ launcherImage: 'virt-launcher:v1', runtimeUser: 107, architecture: 'amd64' });
  const reading = reader.read({ spec: { configuration } } as never);
  if (reading.kind !== 'usable') return { name, error: reading.problem };
  try {
    const byName = new Map(claims.map((claim) => [claim.metadata.name, claim]));
    const kept = claims.find(({ metadata }) => metadata.labels?.['persistent-state-for'] === vmi.metadata.name);
    return { name, pod: renderLauncherPod(vmi, reading.config, 'salt', byName, kept?.metadata.name) };
  } catch (error) {
    return { name, error: String(error) };
  }
}

const byName = <T>(list: readonly T[] | undefined, key: (item: T) => string) =>
  Object.fromEntries((list ?? []).map((item) => [key(item), item]));

/** Lists whose order says nothing become maps; quantities become numbers; what is empty is not there. */
function comparable(pod: Pod | undefined): unknown {
  if (!pod) return undefined;
  const { name: _name, namespace: _namespace, creationTimestamp: _time, ...metadata } = pod.metadata;
  const containers = (list: readonly Container[] | undefined) =>
    byName(list?.map(comparableContainer), ({ name }) => name);
  return withoutEmpty({
    metadata,
    spec: {
      ...pod.spec,
      containers: containers(pod.spec.containers),
      initContainers: containers(pod.spec.initContainers),
      volumes: byName(pod.spec.volumes, ({ name }) => name),
    },
  });
}

function comparableContainer(container: Container) {
  const { command = [], volumeMounts, env, resources, ports } = container;
  const jitter = command.indexOf('--qemu-timeout');
  const amounts = (kind: string) =>
    Object.entries((resources as Record<string, object> | undefined)?.[kind] ?? {}).map(([name, amount]) => [
      name,
      parseQuantity(amount),
    ]);
  return {
    ...container,
    command: command.filter((_, index) => jitter < 0 || index < jitter || index > jitter + 1),
    volumeMounts: byName(
      volumeMounts?.map((mount) => ({ ...mount, mountPath: mount.mountPath.replace(/\/$/, '') })),
      ({ name, mountPath }) => `${name} ${mountPath}`,
    ),
    env: byName(env, ({ name }) => name),
    ports: byName(ports as { containerPort: number }[] | undefined, ({ containerPort }) => String(containerPort)),
    args: container.args?.map((word) => word.replace(/\/$/, '')),
    resources: {
      ...(resources as object),
      requests: Object.fromEntries(amounts('requests')),
      limits: Object.fromEntries(amounts('limits')),
    },
  };
}

function withoutEmpty(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutEmpty(item));
  if (!isRecord(value)) return value;
  const members = Object.entries(value).map(([name, member]) => [name, withoutEmpty(member)] as const);
  const isEmpty = (member: unknown) =>
    member === undefined || member === null || (typeof member === 'object' && Object.keys(member).length === 0);
  return Object.fromEntries(members.filter(([name, member]) => name === 'emptyDir' || !isEmpty(member)));
}

function differences(theirs: unknown, ours: unknown, path: string): string[] {
  if (isRecord(theirs) && isRecord(ours)) {
    const keys = new Set([...Object.keys(theirs), ...Object.keys(ours)]);
    return [...keys].flatMap((key) => differences(theirs[key], ours[key], path === '' ? key : `${path}.${key}`));
  }
  const same = JSON.stringify(sorted(theirs)) === JSON.stringify(sorted(ours));
  return same ? [] : [`${path}: upstream has ${JSON.stringify(theirs)}, ours ${JSON.stringify(ours)}`];
}

/** Members of objects within lists have no order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, member]) => [name, sorted(member)]),
  );
}
