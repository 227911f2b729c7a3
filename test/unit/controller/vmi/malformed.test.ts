import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { VirtualMachineInstance } from '../../../../src/api/index.ts';
import { PodRenderError } from '../../../../src/controller/pod/errors.ts';
import { renderLauncherPod } from '../../../../src/controller/pod/render.ts';
import { vmiProblem } from '../../../../src/controller/vmi/check.ts';
import { projectVmi } from '../../../../src/controller/vmi/project.ts';
import { buildConfig, buildVmi, buildVmiFacts } from '../builders.ts';

/** Values of every JSON type, small enough that many fields get one that nearly fits. */
const anything = fc.oneof(
  fc.constantFrom<unknown>(null, 0, -1, 1.5, true, false, '', 'a', '1Gi', [], {}, [null], ['a'], { name: 'a' }, [
    { name: 'a' },
  ]),
  fc.jsonValue({ maxDepth: 2 }),
);
const named = fc.constantFrom('a', 'b', 'public');
/** Mostly the given value, now and then anything at all: a spec with one wrong field goes further than one with many. */
const mostly = (good: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 30, arbitrary: good }, { weight: 1, arbitrary: anything });
const partly = (fields: Record<string, fc.Arbitrary<unknown>>) => mostly(fc.record(fields, { requiredKeys: [] }));
const nearly = (...good: unknown[]) => mostly(fc.constantFrom(...good));

const volumeSource = fc.oneof(
  fc.record({ containerDisk: nearly({ image: 'i' }) }),
  fc.record({ hostDisk: nearly({ path: '/x', type: 'Disk' }) }),
  fc.record({ cloudInitNoCloud: nearly({ secretRef: { name: 's' } }) }),
  fc.record({ persistentVolumeClaim: nearly({ claimName: 'c' }) }),
  fc.record({ configMap: nearly({ name: 'c' }) }),
);
const volumes = fc
  .uniqueArray(named, { maxLength: 3 })
  .chain((names) => fc.tuple(...names.map((name) => volumeSource.map((source) => ({ name, ...source })))));
const spec = fc.record(
  {
    domain: mostly(
      fc.record(
        {
          memory: mostly(fc.record({ guest: nearly('64Mi'), hugepages: nearly(undefined, { pageSize: '2Mi' }) })),
          cpu: partly({ cores: nearly(1), model: nearly('host-model') }),
          machine: nearly({ type: 'q35' }),
          resources: partly({ requests: partly({ memory: nearly('1Gi'), cpu: nearly('1') }), limits: nearly({}) }),
          firmware: partly({ uuid: nearly('u'), kernelBoot: partly({ container: nearly({ image: 'i' }) }) }),
          devices: partly({
            disks: nearly([], [{ name: 'a' }], [{ name: 'cd', cdrom: {} }]),
            interfaces: nearly(
              [],
              [{ name: 'a', masquerade: {}, ports: [{ port: 1 }] }],
              [{ name: 'a', macAddress: 1, binding: { name: 'p' } }],
              [{ name: 'a', binding: 'p' }],
            ),
            filesystems: nearly([{ name: 'a' }]),
            gpus: nearly([{ name: 'a' }]),
            tpm: nearly({}),
          }),
          ioThreads: nearly({ supplementalPoolThreadCount: 2 }),
          launchSecurity: nearly({ sev: {} }),
        },
        { requiredKeys: ['memory'] },
      ),
    ),
    volumes: mostly(volumes),
    networks: nearly(
      [{ name: 'a', pod: {} }],
      [{ name: 'a', multus: { networkName: 'n/x' } }],
      [{ name: 'a', multus: { networkName: 1 } }],
      [{ name: 'a', multus: 'x' }],
      [{ name: 'a', multus: { networkName: 'x', default: true } }],
    ),
    nodeSelector: nearly({ zone: 'a' }),
    hostname: nearly('h'),
    terminationGracePeriodSeconds: nearly(0, 30),
    architecture: nearly('amd64', 'arm64'),
  },
  { requiredKeys: ['domain'] },
);

const config = buildConfig();

test('whatever the spec is: either its problem is named, or it is admitted and rendered or refused in words', () => {
  const property = fc.property(spec, (value) => {
    const vmi = { ...buildVmi(), spec: structuredClone(value) } as VirtualMachineInstance;
    fc.pre(vmiProblem(vmi) === undefined);
    const wanted = projectVmi(buildVmiFacts({ vmi, config }), { randomUuid: () => 'uuid', vsockCid: () => 3 });
    try {
      renderLauncherPod(wanted, config, 'salt');
    } catch (error) {
      assert.ok(error instanceof PodRenderError, String((error as Error).stack));
    }
  });
  fc.assert(property, { numRuns: 300, maxSkipsPerRun: 1_000 });
});

test('a request that the pod would not have, or that two devices would have, is refused', () => {
  const devices = { interfaces: [{ name: 'nic', masquerade: {} }] };
  const withDevices = (more: object, networks: object[] = [{ name: 'nic', pod: {} }], spec: object = {}) =>
    vmiProblem({
      ...buildVmi(),
      spec: { ...spec, domain: { memory: { guest: '64Mi' }, devices: { ...devices, ...more } }, networks },
    } as unknown as VirtualMachineInstance);
  const lost = 'requestName r is of a claim: give its claimName, too';
  assert.equal(withDevices({ gpus: [{ name: 'g', deviceName: 'd', requestName: 'r' }] }), `g: ${lost}`);
  assert.equal(withDevices({ hostDevices: [{ name: 'h', requestName: 'r' }] }), `h: ${lost}`);
  assert.equal(withDevices({}, [{ name: 'nic', resourceClaim: { requestName: 'r' } }]), `nic: ${lost}`);
  const request = { claimName: 'c', requestName: 'r' };
  const gpus = [{ name: 'g', ...request }];
  assert.equal(withDevices({ gpus }), 'g: spec.resourceClaims has no claim c: add it there');
  const resourceClaims = [{ name: 'c', resourceClaimName: 'x' }];
  assert.equal(withDevices({ gpus }, undefined, { resourceClaims }), undefined);
  const without = withDevices({ gpus: [{ name: 'g', claimName: 'c' }] }, undefined, { resourceClaims });
  assert.equal(without, 'g: claimName c has no requestName: say which of its requests is meant');
  const twice = withDevices({ gpus, hostDevices: [{ name: 'h', ...request }] }, undefined, { resourceClaims });
  assert.equal(twice, 'h: c/r is asked for twice: write a request for each device');
  const networks = [{ name: 'nic', resourceClaim: request }];
  assert.match(String(withDevices({}, networks, { resourceClaims })), /^interface nic: .* needs sriov or a binding$/);
  const sriov = { interfaces: [{ name: 'nic', sriov: {} }] };
  assert.equal(withDevices(sriov, networks, { resourceClaims }), undefined);
});
