import {
  cpuFeatures,
  cpuModels,
  cpuVendor,
  fromKnown,
  hostModel,
  migrationModels,
  obsoleteModel,
} from './cpu-families.ts';
import { flag, type LabelFamily, type LabelRefusal, type LabelWish, named, planOf } from './family.ts';

const machineType = 'machine-type.node.kubevirt.io/';
const cpuTimer = 'cpu-timer.node.kubevirt.io/';
const hyperv = 'hyperv.node.kubevirt.io/';
const guestArch = 'kubevirt.io/vm-arch-';
const realtimeKey = 'kubevirt.io/realtime';

const machineTypes: LabelFamily = {
  name: 'machine-type',
  prefixes: [machineType],
  keys: [],
  plan: ({ machine }) =>
    fromKnown(machine, ({ machineTypes: types }, from) =>
      types.map((type) => named(machineType, type, `${from} has a guest with it`)),
    ),
};

const cpuTimers: LabelFamily = {
  name: 'cpu-timer',
  prefixes: [cpuTimer],
  keys: [],
  plan: ({ machine }) =>
    fromKnown(machine, ({ tsc }, from) => {
      if (!tsc) return [{ key: cpuTimer, because: `${from} has no counter named tsc` }];
      return [
        { key: `${cpuTimer}tsc-frequency`, value: tsc.frequencyHz, because: `${from} gives it in hertz` },
        { key: `${cpuTimer}tsc-scalable`, value: String(tsc.scalable), because: `${from} says whether it scales` },
      ];
    }),
};

/**
 * Label by label, the words of libvirt that prove it. libvirt asks QEMU, which asks KVM for what upstream asks by ioctl
 * (pkg/virt-handler/node-labeller/kvm-caps-info-plugin_amd64.go): its synthetic interrupts need KVM's second version of them, and
 * its timers need the reference time.
 */
const enlightenments: Readonly<Record<string, readonly string[]>> = {
  base: ['relaxed', 'vapic'],
  time: ['stimer'],
  vpindex: ['vpindex'],
  tlbflush: ['tlbflush'],
  ipi: ['ipi'],
  synic: ['synic'],
  synic2: ['synic'],
  frequencies: ['frequencies'],
  reset: ['reset'],
  runtime: ['runtime'],
  synictimer: ['stimer'],
  reenlightenment: ['reenlightenment'],
};

const hypervFeatures: LabelFamily = {
  name: 'hyperv',
  prefixes: [hyperv],
  keys: [],
  plan({ arch, domain }) {
    if (arch !== 'amd64') return planOf([{ key: hyperv, because: `${arch} has no Hyper-V enlightenments` }]);
    return fromKnown(domain, ({ hyperv: offered }, from) =>
      Object.entries(enlightenments).map(([label, words]) => {
        const proof = words.find((word) => offered.includes(word));
        const no = `${from} offers no Hyper-V feature ${words.join(' or ')}`;
        return flag(hyperv + label, proof !== undefined, `${from} offers Hyper-V feature ${proof}`, no);
      }),
    );
  },
};

const confidential: LabelFamily = {
  name: 'confidential',
  prefixes: [],
  keys: ['kubevirt.io/sev', 'kubevirt.io/sev-es', 'kubevirt.io/sev-snp', 'kubevirt.io/tdx', 'kubevirt.io/s390-pv'],
  plan: ({ domain }) =>
    fromKnown(domain, ({ sev, sevEs, sevSnp, tdx, secureExecution }, from) => {
      const one = (name: string, isHere: boolean, what: string) =>
        flag(`kubevirt.io/${name}`, isHere, `${from} offers ${what}`, `${from} does not offer ${what}`);
      return [
        one('sev', sev, 'SEV'),
        one('sev-es', sevEs, 'SEV with encrypted state'),
        one('sev-snp', sevSnp, 'SEV-SNP'),
        one('tdx', tdx, 'TDX'),
        one('s390-pv', secureExecution, 'Secure Execution'),
      ];
    }),
};

const realtime: LabelFamily = {
  name: 'realtime',
  prefixes: [],
  keys: [realtimeKey],
  plan: (facts) =>
    fromKnown(facts.realtime, (isUnlimited, from) => [
      flag(realtimeKey, isUnlimited, `${from} is -1`, `${from} is not -1: real-time threads are throttled`),
    ]),
};

const guestArchs: LabelFamily = {
  name: 'vm-arch',
  followsConfiguration: true,
  prefixes: [guestArch],
  keys: [],
  plan({ arch, foreignArchs }, { crossArchitecture }) {
    if (!crossArchitecture) {
      return planOf([{ key: guestArch, because: 'feature gate CrossArchitectureVirtualization is off' }]);
    }
    return fromKnown(foreignArchs, (foreign, from): (LabelWish | LabelRefusal)[] => [
      named(guestArch, arch, 'it is the architecture of this machine'),
      ...foreign.map((other) => named(guestArch, other, `${from} shows that it is emulated here`)),
    ]);
  },
};

/** Every label of ours that follows from libvirt's files, from the kernel and from the cluster's configuration. */
export const labelFamilies: readonly LabelFamily[] = [
  cpuFeatures,
  cpuModels,
  migrationModels,
  hostModel,
  cpuVendor,
  obsoleteModel,
  machineTypes,
  cpuTimers,
  hypervFeatures,
  confidential,
  realtime,
  guestArchs,
];
