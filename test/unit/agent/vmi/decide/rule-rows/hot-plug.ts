import type { Observation } from '../../../../../../src/agent/vmi/observe/index.ts';
import type { VmiPhase } from '../../../../../../src/api/index.ts';
import {
  domainNone,
  domainOf,
  nowMs,
  observationOf,
  presentVmi,
  seen,
  uid,
  vmiOf,
} from '../../../../../fixtures/agent/builders.ts';
import { memory, type Row } from './row.ts';

const hotplugVolume = { attachPodName: 'hp', attachPodUID: 'hp-1' };
const claim = { name: 'late', persistentVolumeClaim: { claimName: 'c', hotpluggable: true } };

/** With a volume `late` that is plugged, in the spec unless told otherwise. */
export function plugging(
  phase: VmiPhase,
  volumePhase: string,
  { wanted = true, attached = '' }: { wanted?: boolean; attached?: string } = {},
): Observation['vmi'] {
  const volumeStatus = [{ name: 'late', target: attached, phase: volumePhase, hotplugVolume }];
  const vmi = vmiOf(phase, { spec: { domain: {}, volumes: wanted ? [claim] : [] } });
  return presentVmi({ ...vmi, status: { ...vmi.status, volumeStatus } });
}

const { statusFacts } = observationOf();
const mounted = (...mountedVolumes: string[]) => ({ statusFacts: { ...statusFacts, mountedVolumes } });

function withDisk(): ReturnType<typeof domainOf> {
  const domain = domainOf();
  domain.Spec.Devices.Disks = [
    {
      Device: 'disk',
      Type: 'file',
      Source: { Dev: '', File: '/late.img' },
      Target: { Bus: 'scsi', Device: 'sda', Tray: '' },
      Alias: { Name: 'late', UserDefined: true },
    },
  ];
  return domain;
}

function dumping(targetFileName: unknown): Observation['vmi'] {
  const memoryDumpVolume = { claimName: 'c', targetFileName };
  const volumeStatus = [{ name: 'dump', target: '', phase: 'MemoryDumpInProgress', hotplugVolume, memoryDumpVolume }];
  const vmi = vmiOf('Running');
  return presentVmi({ ...vmi, status: { ...vmi.status, volumeStatus } });
}

export const hotPlugRows: readonly Row[] = [
  {
    rule: 'start-volumes-awaited',
    when: 'a volume was plugged before and nobody has looked for it yet',
    given: { vmi: plugging('Scheduled', 'AttachedToNode'), domain: domainNone, memory: memory() },
    expect: { steps: ['ensureLauncherConnection', 'prepareHost'], requeueAfterMs: 0 },
  },
  {
    rule: 'start-volumes-awaited',
    when: 'it is not mounted in the launcher yet',
    given: { vmi: plugging('Scheduled', 'AttachedToNode'), domain: domainNone, ...mounted() },
    expect: { steps: ['ensureLauncherConnection', 'prepareHost'], requeueAfterMs: 0 },
  },
  {
    rule: 'start-volumes-awaited',
    when: 'it is mounted and the status does not say so yet',
    given: { vmi: plugging('Scheduled', 'AttachedToNode'), domain: domainNone, ...mounted('late') },
    expect: { steps: [], requeueAfterMs: 1_000 },
  },
  {
    rule: 'start-volumes-awaited',
    when: 'the controller has told of no volume yet',
    given: {
      vmi: presentVmi(vmiOf('Scheduled', { spec: { domain: {}, volumes: [claim] } })),
      domain: domainNone,
    },
    expect: { steps: ['ensureLauncherConnection', 'prepareHost'] },
  },
  ...(['MountedToPod', 'Ready'] as const).map(
    (phase): Row => ({
      rule: 'start-due',
      when: `a volume that was plugged before is ${phase}`,
      given: { vmi: plugging('Scheduled', phase), domain: domainNone, syncFingerprint: 'new', ...mounted('late') },
      expect: { steps: ['ensureLauncherConnection', 'prepareHost', 'syncVirtualMachine'] },
    }),
  ),
  {
    rule: 'start-due',
    when: 'a volume that is on its way out waits for nobody',
    given: {
      vmi: plugging('Scheduled', 'AttachedToNode', { wanted: false }),
      domain: domainNone,
      syncFingerprint: 'new',
    },
    expect: { steps: ['ensureLauncherConnection', 'prepareHost', 'syncVirtualMachine'] },
  },
  {
    rule: 'vmi-changed',
    when: 'a volume was attached to this node: it is looked at again at once',
    given: { vmi: plugging('Running', 'AttachedToNode'), syncFingerprint: 'new', ...mounted() },
    expect: { steps: ['adjustHost', 'syncVirtualMachine'], requeueAfterMs: 0 },
  },
  {
    rule: 'volume-plug-due',
    when: 'a volume is attached to this node and could not be mounted yet',
    given: { vmi: plugging('Running', 'AttachedToNode'), ...mounted() },
    expect: { steps: ['adjustHost'], requeueAfterMs: 1_000, healthy: true },
  },
  {
    rule: 'steady',
    when: 'whether a volume is mounted is not known',
    given: { vmi: plugging('Running', 'AttachedToNode') },
    expect: { steps: [] },
  },
  {
    rule: 'steady',
    when: 'a volume is mounted, and not attached to this node any more',
    given: { vmi: plugging('Running', 'MountedToPod'), ...mounted('late') },
    expect: { steps: [] },
  },
  {
    rule: 'volume-unplug-due',
    when: 'the domain has let go a volume that is not asked for any more',
    given: { vmi: plugging('Running', 'Ready', { wanted: false }), ...mounted('late') },
    expect: { steps: ['settleHost'], requeueAfterMs: 0 },
  },
  {
    rule: 'volume-detach-awaited',
    when: 'the domain still has its disk, by what was seen last',
    given: {
      vmi: plugging('Running', 'Ready', { wanted: false }),
      domain: seen(withDisk(), uid, nowMs - 2_000),
      ...mounted('late'),
    },
    expect: { steps: ['refreshDomain'], requeueAfterMs: 2_000 },
  },
  {
    rule: 'volume-detach-awaited',
    when: 'the domain still has its disk, and was seen a moment ago',
    given: {
      vmi: plugging('Running', 'Ready', { wanted: false }),
      domain: seen(withDisk(), uid, nowMs - 500),
      ...mounted('late'),
    },
    expect: { steps: [], requeueAfterMs: 1_500 },
  },
  {
    rule: 'volume-detach-awaited',
    when: 'the domain was not seen since the launcher was told',
    given: {
      vmi: plugging('Running', 'Ready', { wanted: false }),
      memory: memory({ synced: { fingerprint: 'same', atMs: nowMs } }),
      ...mounted('late'),
    },
    expect: { steps: [], requeueAfterMs: 100 },
  },
  {
    rule: 'volume-detach-awaited',
    when: 'the domain was not seen for a while since the launcher was told',
    given: {
      vmi: plugging('Running', 'Ready', { wanted: false }),
      domain: seen(withDisk(), uid, nowMs - 200),
      memory: memory({ synced: { fingerprint: 'same', atMs: nowMs - 150 } }),
      ...mounted('late'),
    },
    expect: { steps: ['refreshDomain'], requeueAfterMs: 2_000 },
  },
  {
    rule: 'memory-dump-due',
    when: 'a dump is in progress, and the launcher has not told of it',
    given: { vmi: dumping('vm1-dump-1.memory.dump') },
    expect: { steps: ['dumpMemory'], requeueAfterMs: 10_000 },
  },
  ...([undefined, '', '../../x', 7] as const).map(
    (targetFileName): Row => ({
      rule: 'steady',
      when: `a dump to ${targetFileName} is in progress, which is no name of a file`,
      given: { vmi: dumping(targetFileName) },
      expect: { steps: [] },
    }),
  ),
  {
    rule: 'vmi-changed',
    when: 'the launcher does not know yet that a volume is not asked for any more: it is told first',
    given: { vmi: plugging('Running', 'Ready', { wanted: false }), syncFingerprint: 'new', ...mounted('late') },
    expect: { steps: ['adjustHost', 'syncVirtualMachine'], requeueAfterMs: 0 },
  },
];
