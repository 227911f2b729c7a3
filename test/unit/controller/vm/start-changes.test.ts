import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type KubeObject,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
} from '../../../../src/api/index.ts';
import type { Rollout } from '../../../../src/controller/vm/live-change.ts';
import { makeVmi } from '../../../../src/controller/vm/make-vmi.ts';
import { needsRestart } from '../../../../src/controller/vm/start-changes.ts';
import { dropStartSpec, keepStartSpec, StartSpecs } from '../../../../src/controller/vm/start-revision.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { buildVm } from '../builders.ts';

type Change = (spec: VmiSpec) => void;

const claim = (name: string, hotpluggable: boolean) => ({
  name,
  persistentVolumeClaim: { claimName: name, hotpluggable },
});

function template(): VmiSpec {
  return {
    architecture: 'amd64',
    domain: {
      cpu: { sockets: 1, cores: 2 },
      memory: { guest: '1Gi' },
      resources: { requests: { memory: '1Gi' } },
      devices: {
        disks: [{ name: 'root', disk: {} }, { name: 'cd', cdrom: {} }, { name: 'data' }],
        interfaces: [
          { name: 'default', masquerade: {} },
          { name: 'more', bridge: {} },
        ],
      },
    },
    networks: [
      { name: 'default', pod: {} },
      { name: 'more', multus: { networkName: 'net' } },
    ],
    volumes: [{ name: 'root', containerDisk: { image: 'i' } }, claim('data', true), claim('fixed', false)],
  };
}

interface Row {
  readonly what: string;
  readonly change: Change;
  /** Of the running VMI; else it is as at the start. */
  readonly running?: Change;
  readonly strategy?: Rollout['strategy'];
  readonly migrates?: boolean;
  readonly restart: boolean;
}

const disks = ({ domain }: VmiSpec) => domain.devices?.disks ?? assert.fail();
const links = ({ domain }: VmiSpec) => domain.devices?.interfaces ?? assert.fail();
const unplug = (spec: VmiSpec) => {
  Object.assign(links(spec)[1] ?? assert.fail(), { state: 'absent' });
};

const rows: readonly Row[] = [
  { what: 'nothing', change: () => undefined, restart: false },
  {
    what: 'nothing but the form',
    change: (spec) => Object.assign(spec, { nodeSelector: {}, accessCredentials: [] }),
    restart: false,
  },
  {
    what: 'the words of a quantity',
    change: ({ domain }) => Object.assign(domain, { resources: { requests: { memory: '1024Mi' }, limits: {} } }),
    restart: false,
  },
  {
    what: 'a field that Go leaves out',
    change: (spec) => Object.assign(spec, { hostname: '', schedulerName: null }),
    restart: false,
  },
  {
    what: 'an empty field that means something',
    change: ({ domain }) => Object.assign(domain.devices ?? {}, { rng: {} }),
    restart: true,
  },
  { what: 'a field that nobody here knows', change: (spec) => Object.assign(spec, { unheardOf: 1 }), restart: true },
  { what: 'a field that went', change: (spec) => void delete spec.architecture, restart: true },
  { what: 'sockets', change: ({ domain }) => Object.assign(domain.cpu ?? {}, { sockets: 2 }), restart: false },
  {
    what: 'sockets, staged',
    strategy: 'Stage',
    change: ({ domain }) => Object.assign(domain.cpu ?? {}, { sockets: 2 }),
    restart: true,
  },
  { what: 'cores', change: ({ domain }) => Object.assign(domain.cpu ?? {}, { cores: 4 }), restart: true },
  { what: 'the CPU at all', change: ({ domain }) => void delete domain.cpu, restart: true },
  { what: 'memory', change: ({ domain }) => Object.assign(domain, { memory: { guest: '2Gi' } }), restart: false },
  {
    what: 'memory, staged',
    strategy: 'Stage',
    change: ({ domain }) => Object.assign(domain, { memory: { guest: '2Gi' } }),
    restart: true,
  },
  {
    what: 'the most memory',
    change: ({ domain }) => Object.assign(domain, { memory: { guest: '1Gi', maxGuest: '4Gi' } }),
    restart: true,
  },
  { what: 'the memory at all', change: ({ domain }) => void delete domain.memory, restart: true },
  {
    what: 'where it may run',
    change: (spec) =>
      Object.assign(spec, { nodeSelector: { zone: 'a' }, affinity: { nodeAffinity: {} }, tolerations: [{ key: 'a' }] }),
    restart: false,
  },
  {
    what: 'where it may run, staged',
    strategy: 'Stage',
    change: (spec) => Object.assign(spec, { nodeSelector: { zone: 'a' } }),
    restart: true,
  },
  {
    what: 'a volume that can be plugged, and its disk',
    change: (spec) => {
      spec.volumes?.push(claim('new', true));
      disks(spec).push({ name: 'new' });
    },
    restart: false,
  },
  {
    what: 'a volume that was plugged',
    strategy: 'Stage',
    change: (spec) => {
      spec.volumes = spec.volumes?.filter(({ name }) => name !== 'data') ?? [];
      disks(spec).pop();
    },
    restart: false,
  },
  {
    what: 'a volume that cannot be plugged',
    change: (spec) => void spec.volumes?.push(claim('new', false)),
    restart: true,
  },
  { what: 'a volume that stays', change: (spec) => void spec.volumes?.splice(2, 1), restart: true },
  {
    what: 'the claim of a volume',
    change: (spec) => void spec.volumes?.splice(2, 1, { name: 'fixed', persistentVolumeClaim: { claimName: 'b' } }),
    restart: true,
  },
  {
    what: 'the claim of a volume, to migrate',
    migrates: true,
    change: (spec) => void spec.volumes?.splice(2, 1, { name: 'fixed', persistentVolumeClaim: { claimName: 'b' } }),
    restart: false,
  },
  {
    what: 'an image',
    migrates: true,
    change: (spec) => void spec.volumes?.splice(0, 1, { name: 'root', containerDisk: { image: 'j' } }),
    restart: true,
  },
  {
    what: 'a disk of a volume that stays',
    change: (spec) => void disks(spec).splice(0, 1, { name: 'root', lun: {} }),
    restart: true,
  },
  { what: 'a drive', change: (spec) => void disks(spec).splice(1, 1), restart: true },
  { what: 'a drive more', change: (spec) => void disks(spec).push({ name: 'cd2', cdrom: {} }), restart: true },
  {
    what: 'a link that is plugged',
    change: (spec) => {
      links(spec).push({ name: 'x', bridge: {} });
      spec.networks?.push({ name: 'x', multus: { networkName: 'y' } });
    },
    restart: false,
  },
  { what: 'a link that is to go', change: unplug, restart: false },
  {
    what: 'a link that has gone',
    change: (spec) => {
      links(spec).pop();
      spec.networks?.pop();
    },
    running: (spec) => {
      links(spec).pop();
      spec.networks?.pop();
    },
    restart: false,
  },
  {
    what: 'a link that is still there',
    change: (spec) => {
      links(spec).pop();
      spec.networks?.pop();
    },
    restart: true,
  },
  {
    what: 'the binding of a link',
    change: (spec) => void links(spec).splice(0, 1, { name: 'default', bridge: {} }),
    restart: true,
  },
  {
    what: 'the definition of a network',
    change: (spec) => void spec.networks?.splice(1, 1, { name: 'more', multus: { networkName: 'z' } }),
    restart: false,
  },
  {
    what: 'the kind of a network',
    change: (spec) => void spec.networks?.splice(1, 1, { name: 'more', pod: {} }),
    restart: true,
  },
  {
    what: 'the firmware’s own id',
    change: ({ domain }) => Object.assign(domain, { firmware: { uuid: 'u' } }),
    running: ({ domain }) => Object.assign(domain, { firmware: { uuid: 'u' } }),
    restart: false,
  },
  {
    what: 'another id of the firmware',
    change: ({ domain }) => Object.assign(domain, { firmware: { uuid: 'v' } }),
    restart: true,
  },
];

function vmOf(change: Change, migrates = false): VirtualMachine {
  const spec = template();
  change(spec);
  return buildVm({ template: { spec }, ...(migrates && { updateVolumesStrategy: 'Migration' }) });
}

function changed({
  change,
  running = () => undefined,
  strategy = 'LiveUpdate',
  migrates,
}: Omit<Row, 'what' | 'restart'>) {
  const [start, vm] = [vmOf(() => undefined), vmOf(change, migrates)];
  const vmi = makeVmi(start, false);
  running(vmi.spec);
  return needsRestart(start.spec, vm, vmi, strategy);
}

for (const { what, restart, ...row } of rows) {
  test(`a restart is ${restart ? '' : 'not '}needed for a change of ${what}`, () => {
    assert.equal(changed(row), restart);
  });
}

const oddities: readonly unknown[] = [undefined, null, 7, 'x', true, [], [null], [7], ['x'], [{}], {}, { name: 7 }];

test('whatever a bare API server took for a template is compared, and never thrown over', () => {
  const places = [
    ['template'],
    ['template', 'spec'],
    ...['domain', 'volumes', 'networks'].map((name) => ['template', 'spec', name]),
    ...['devices', 'cpu', 'memory', 'firmware', 'resources'].map((name) => ['template', 'spec', 'domain', name]),
    ...['disks', 'interfaces'].map((name) => ['template', 'spec', 'domain', 'devices', name]),
  ];
  const having = (place: readonly string[], value: unknown) => {
    const vm = vmOf(() => undefined);
    const parent = place.slice(0, -1).reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], vm.spec);
    Object.assign(parent as object, { [place.at(-1) ?? '']: value });
    return vm;
  };
  const sound = vmOf(() => undefined);
  for (const place of places) {
    for (const value of oddities) {
      const odd = having(place, value);
      const running = { ...makeVmi(sound, false), spec: structuredClone(odd.spec.template?.spec ?? {}) as VmiSpec };
      assert.equal(typeof needsRestart(sound.spec, odd, makeVmi(sound, false), 'LiveUpdate'), 'boolean');
      assert.equal(needsRestart(odd.spec, structuredClone(odd), running, 'Stage'), false, `${place} ${String(value)}`);
    }
  }
});

/** Objects by name, as an API server keeps them. */
function revisions(refused?: 'FORBIDDEN' | 'TIMEOUT') {
  const kept = new Map<string, KubeObject>();
  let reads = 0;
  const refuse = () => {
    if (refused) throw new KubeError(refused, 'no', { httpStatus: refused === 'FORBIDDEN' ? 403 : 504 });
  };
  const found = (name: string) => {
    const object = kept.get(name);
    if (object) return object;
    throw new KubeError('NOT_FOUND', 'none', { httpStatus: 404 });
  };
  const client = {
    create: async <T extends KubeObject>(type: unknown, object: T): Promise<T> => {
      refuse();
      assert.equal(type, resources.controllerRevisions);
      if (kept.has(object.metadata.name)) throw new KubeError('ALREADY_EXISTS', 'there', { httpStatus: 409 });
      kept.set(object.metadata.name, structuredClone(object));
      return object;
    },
    get: async <T extends KubeObject>(_type: unknown, { name }: { name: string }): Promise<T> => {
      reads++;
      refuse();
      return found(name) as T;
    },
    delete: async (_type: unknown, { name }: { name: string }): Promise<void> => {
      refuse();
      found(name);
      kept.delete(name);
    },
  };
  return { kept, client: client as never, reads: () => reads };
}

const { signal } = new AbortController();

function started(): {
  readonly vm: VirtualMachine;
  readonly vmi: VirtualMachineInstance;
  readonly later: VirtualMachine;
} {
  const vm = buildVm({ template: { spec: template() } });
  const later = vmOf(({ domain }) => void delete domain.memory);
  return { vm, vmi: makeVmi(vm, false), later: { ...later, metadata: { ...later.metadata, generation: 7 } } };
}

test('the spec of a start is kept as upstream keeps it, read once, and dropped at the end', async () => {
  const { vm, vmi, later } = started();
  const { kept, client, reads } = revisions();
  const name = `revision-start-vm-${vm.metadata.uid}-${vm.metadata.generation ?? 1}`;
  await keepStartSpec(vm, client, signal);
  await keepStartSpec(vm, client, signal);
  const { metadata, ...rest } = kept.get(name) as KubeObject & { data: unknown };
  assert.deepEqual(
    [vmi.status?.virtualMachineRevisionName, metadata.ownerReferences?.[0]?.uid],
    [name, vm.metadata.uid],
  );
  const { apiVersion, kind } = { apiVersion: 'apps/v1', kind: 'ControllerRevision' };
  assert.deepEqual(rest, { apiVersion, kind, data: { spec: vm.spec }, revision: vm.metadata.generation ?? 1 });
  const specs = new StartSpecs(client);
  assert.deepEqual([await specs.of(vm, vmi, signal), reads()], [vm.spec, 0]);
  assert.deepEqual(
    [await specs.of(later, vmi, signal), await specs.of(later, vmi, signal), reads()],
    [vm.spec, vm.spec, 1],
  );
  await dropStartSpec(vmi, client, signal);
  await dropStartSpec(vmi, client, signal);
  assert.equal(kept.size, 0);
});

test('where it cannot be kept nothing is known, and nothing held up; an API server that does not answer is asked again', async () => {
  const { vm, vmi, later } = started();
  const { client } = revisions('FORBIDDEN');
  await keepStartSpec(vm, client, signal);
  assert.equal(await new StartSpecs(client).of(later, vmi, signal), undefined);
  await dropStartSpec(vmi, client, signal);
  assert.equal(await new StartSpecs(revisions().client).of(later, vmi, signal), undefined);
  await assert.rejects(new StartSpecs(revisions('TIMEOUT').client).of(later, vmi, signal), { code: 'TIMEOUT' });
});

test('a revision of another VM, or that holds something else, tells nothing and is left alone', async () => {
  const { vm, vmi, later } = started();
  const { kept, client } = revisions();
  const foreign = { ...vmi, status: { virtualMachineRevisionName: 'revision-start-vm-other-1' } };
  kept.set('revision-start-vm-other-1', { metadata: { name: 'x' }, data: { spec: vm.spec } } as never);
  assert.equal(await new StartSpecs(client).of(later, foreign, signal), undefined);
  await dropStartSpec(foreign, client, signal);
  assert.equal(kept.size, 1);
  for (const name of [7, null, {}, 'revision-start-vm-']) {
    const odd = { ...vmi, status: { virtualMachineRevisionName: name as string } };
    assert.equal(await new StartSpecs(client).of(later, odd, signal), undefined);
    await dropStartSpec(odd, client, signal);
  }
  for (const data of [undefined, null, 7, {}, { spec: [] }, { spec: { template: {} } }]) {
    kept.set(vmi.status?.virtualMachineRevisionName ?? '', { metadata: { name: 'x' }, data } as never);
    assert.equal(await new StartSpecs(client).of(later, vmi, signal), undefined);
  }
});
