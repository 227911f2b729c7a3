import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type {
  Condition,
  DataVolume,
  EventObject,
  PersistentVolumeClaim,
  Pod,
  VirtualMachine,
  VirtualMachineInstance,
} from '../../../../src/api/index.ts';
import { tellWaiting, type WaitingFacts } from '../../../../src/standalone/waiting/tell.ts';

const metadata = { namespace: 'default', name: 'v' };
const head = (kind: string) => ({ apiVersion: 'v1', kind });

function vm(status: VirtualMachine['status'] = {}, spec: Partial<VirtualMachine['spec']> = {}): VirtualMachine {
  return {
    ...head('VirtualMachine'),
    metadata,
    spec: { runStrategy: 'Always', template: { spec: { domain: {} } }, ...spec },
    status,
  };
}

function vmi(phase: string, conditions: Condition[] = [], more: object = {}): VirtualMachineInstance {
  return {
    ...head('VirtualMachineInstance'),
    metadata,
    spec: { domain: {} },
    status: { phase, conditions, ...more },
  } as VirtualMachineInstance;
}

function pod(status: Pod['status'] = {}, nodeName?: string): Pod {
  return {
    ...head('Pod'),
    metadata: { namespace: 'default', name: 'p' },
    spec: { containers: [], ...(nodeName && { nodeName }) },
    status,
  };
}

function dataVolume(name: string, status: NonNullable<DataVolume['status']>): DataVolume {
  return { ...head('DataVolume'), metadata: { namespace: 'default', name }, status };
}

function warning(reason: string, message: string): EventObject {
  return {
    ...head('Event'),
    metadata: { name: 'e' },
    involvedObject: { kind: 'VirtualMachine', name: 'v' },
    type: 'Warning',
    reason,
    message,
  };
}

const nothing: WaitingFacts = {
  namespace: 'default',
  name: 'v',
  vm: undefined,
  vmi: undefined,
  pod: undefined,
  claims: [],
  dataVolumes: [],
  quotas: [],
  events: [],
  ofVm: undefined,
  ofVmi: undefined,
  isControllerAway: false,
  nodes: { ready: 1, all: 1 },
};

const condition = (type: string, status: 'True' | 'False', reason: string, message: string): Condition => ({
  type,
  status,
  reason,
  message,
});
const claim = { metadata: { name: 'data' }, spec: {} } as PersistentVolumeClaim;
const unschedulable = condition(
  'PodScheduled',
  'False',
  'Unschedulable',
  '0/1 nodes are available: 1 Insufficient memory',
);

const cases: [rule: string, facts: Partial<WaitingFacts>, waitsFor: RegExp, todo: RegExp][] = [
  [
    'being-deleted',
    { vm: { ...vm(), metadata: { ...metadata, deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['f'] } } },
    /being deleted.*\(f\)/,
    /^$/,
  ],
  [
    'halted',
    { vm: vm({}, { runStrategy: 'Halted' }) },
    /nothing: its runStrategy is Halted/,
    /virtctl start v -n default/,
  ],
  ['halted', { vm: vm({}, { runStrategy: 'Manual' }), vmi: vmi('Failed') }, /runStrategy is Manual/, /virtctl start/],
  [
    'halted',
    { vm: vm({}, { runStrategy: 'Once' }), vmi: vmi('Succeeded') },
    /its guest has ended, and runStrategy Once does not/,
    /virtctl start/,
  ],
  ['ended', { vmi: vmi('Failed') }, /it has ended as Failed, and no VirtualMachine/, /create it again/],
  [
    'claim-missing',
    { vmi: vmi('Pending'), claims: [{ name: 'data', claim: undefined }] },
    /the PersistentVolumeClaim data, which does not exist in namespace default/,
    /create what is missing/,
  ],
  [
    'claim-missing',
    {
      vmi: vmi('Pending'),
      claims: [
        { name: 'a', claim: undefined },
        { name: 'b', claim: undefined },
      ],
    },
    /the PersistentVolumeClaims a, b, which do not exist/,
    /create/,
  ],
  [
    'data-volume-failed',
    {
      vm: vm(),
      dataVolumes: [
        dataVolume('d', {
          phase: 'Failed',
          conditions: [condition('Running', 'False', 'Error', 'http 404 from the server')],
        }),
      ],
    },
    /the DataVolume d, which could not be filled \(Error: http 404 from the server\)/,
    /describe datavolume d/,
  ],
  [
    'data-volume-filling',
    { vm: vm(), dataVolumes: [dataVolume('d', { phase: 'ImportInProgress', progress: '12.5%' })] },
    /still being filled: DataVolume d \(ImportInProgress, 12.5%\)/,
    /wait; it starts by itself/,
  ],
  [
    'data-volume-filling',
    { vm: vm(), dataVolumes: [dataVolume('d', { phase: 'UploadReady', progress: 'N/A' })] },
    /d \(UploadReady\)/,
    /virtctl image-upload/,
  ],
  [
    'refused-by-quota',
    {
      vm: vm(),
      quotas: ['small'],
      vmi: vmi('Pending', [
        condition('Synchronized', 'False', 'FailedCreate', 'pods "p" is forbidden: exceeded quota: small'),
      ]),
    },
    /room in the quota of its namespace: .*exceeded quota: small/,
    /kubectl describe quota small -n default/,
  ],
  [
    'refused-by-quota',
    { vm: vm(), events: [warning('FailedCreate', 'exceeded quota: tiny')] },
    /exceeded quota: tiny/,
    /kubectl describe quota -n default/,
  ],
  [
    'crash-loop',
    { vm: vm({ startFailure: { consecutiveFailCount: 3, retryAfterTimestamp: '2026-01-01T00:00:00Z' } }) },
    /its next start, at 2026-01-01T00:00:00Z: it has failed 3 times in a row/,
    /kubectl describe vm v -n default/,
  ],
  [
    'controller-away',
    { vm: vm(), isControllerAway: true },
    /virt-controller, which makes its VirtualMachineInstance/,
    /status/,
  ],
  [
    'controller-away',
    { vmi: vmi(''), isControllerAway: true },
    /virt-controller, which makes its launcher pod/,
    /status/,
  ],
  [
    'refused',
    { vm: vm({ conditions: [condition('Failure', 'True', 'FailedCreate', 'no such instance type: big')] }) },
    /a change of it.*FailedCreate: no such instance type: big/,
    /kubectl edit vm v -n default/,
  ],
  [
    'refused',
    { vmi: vmi('Pending', [condition('Synchronized', 'False', 'FailedCreate', 'two pod networks')]) },
    /FailedCreate: two pod networks/,
    /kubectl edit vmi v/,
  ],
  [
    'unschedulable',
    { vmi: vmi('Scheduling'), pod: pod({ conditions: [unschedulable] }) },
    /a node that takes its launcher pod: 0\/1 nodes are available/,
    /^kubectl describe nodes/,
  ],
  [
    'unschedulable',
    { vmi: vmi('Scheduling', [unschedulable]), nodes: { ready: 0, all: 2 } },
    /0\/1 nodes/,
    /^no node takes VMs now/,
  ],
  [
    'container-waits',
    {
      vmi: vmi('Scheduling'),
      pod: pod(
        {
          containerStatuses: [
            {
              ...{ name: 'volumeroot', ready: false, restartCount: 0, image: 'my/debian:12', imageID: '' },
              state: { waiting: { reason: 'ErrImagePull', message: 'not on this node' } },
            },
          ],
        },
        'one',
      ),
    },
    /the container volumeroot of its pod p: ErrImagePull: not on this node/,
    /virt-node image add my\/debian:12 FILE/,
  ],
  [
    'on-a-node',
    { vmi: vmi('Scheduled', [], { nodeName: 'one' }), pod: pod({}, 'one') },
    /the agent of node one/,
    /status/,
  ],
  [
    'launcher-starts',
    { vmi: vmi('Scheduling'), pod: pod({}, 'one') },
    /its launcher pod p on node one, which starts/,
    /^kubectl describe pod p -n default$/,
  ],
  ['pod-awaited', { vm: vm() }, /virt-controller, which makes its VirtualMachineInstance/, /^$/],
  ['pod-awaited', { vmi: vmi('Pending') }, /virt-controller, which makes its launcher pod/, /^$/],
  ['pod-awaited', { vmi: vmi('Scheduling'), pod: pod() }, /a node for its launcher pod p/, /^$/],
];

describe('why a VM is on no node', () => {
  for (const [rule, facts, waitsFor, todo] of cases) {
    test(`${rule}: ${waitsFor.source}`, () => {
      const story = tellWaiting({ ...nothing, ...facts });
      assert.equal(story.rule, rule);
      assert.match(story.waitsFor, waitsFor);
      assert.match(story.todo.join('\n'), todo);
    });
  }

  test('a claim that is there, or that a DataVolume makes, is not missing', () => {
    const claims = [
      { name: 'data', claim },
      { name: 'd', claim: undefined },
    ];
    const filling = { vmi: vmi('Pending'), claims, dataVolumes: [dataVolume('d', { phase: 'Pending' })] };
    assert.equal(tellWaiting({ ...nothing, ...filling }).rule, 'data-volume-filling');
  });

  test('a stopped VM that was asked to start is no longer called stopped', () => {
    const asked = vm({ stateChangeRequests: [{ action: 'Start' }] }, { runStrategy: 'Halted' });
    assert.equal(tellWaiting({ ...nothing, vm: asked }).rule, 'pod-awaited');
  });

  test('what is in the status of a wrong shape stops no answer', () => {
    const odd = vmi('Pending');
    assert.equal(
      tellWaiting({ ...nothing, vm: { ...vm(), status: undefined } as never, vmi: odd }).rule,
      'pod-awaited',
    );
  });
});
