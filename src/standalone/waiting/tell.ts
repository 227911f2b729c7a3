import {
  type Condition,
  type ControllerReport,
  type DataVolume,
  type EventObject,
  findCondition,
  isBeingDeleted,
  isFinal,
  type KubeObject,
  type PersistentVolumeClaim,
  type Pod,
  type VirtualMachine,
  type VirtualMachineInstance,
  type WaitingStory,
} from '../../api/index.ts';

/** What the API and virt-controller know of a VM that is on no node. */
export interface WaitingFacts {
  readonly namespace: string;
  readonly name: string;
  readonly vm: VirtualMachine | undefined;
  readonly vmi: VirtualMachineInstance | undefined;
  /** Launcher pod of the VMI, the newest one. */
  readonly pod: Pod | undefined;
  /** Claims that the VM names. `claim` undefined: it does not exist. */
  readonly claims: readonly { readonly name: string; readonly claim: PersistentVolumeClaim | undefined }[];
  readonly dataVolumes: readonly DataVolume[];
  /** Names of quotas of the namespace. */
  readonly quotas: readonly string[];
  /** Of VM, VMI and pod; the newest last. */
  readonly events: readonly EventObject[];
  /** Undefined: virt-controller does not answer, or has decided nothing about it. */
  readonly ofVm: ControllerReport | undefined;
  readonly ofVmi: ControllerReport | undefined;
  readonly isControllerAway: boolean;
  /** Nodes that take VMs, and all. */
  readonly nodes: { readonly ready: number; readonly all: number };
}

interface Rule {
  readonly rule: string;
  readonly tell: (facts: WaitingFacts) => Omit<WaitingStory, 'rule'> | undefined;
}

const said = ({ reason, message }: Pick<Condition, 'reason' | 'message'>) =>
  [reason, message].filter(Boolean).join(': ') || 'without a reason';
const isFalse = (object: VirtualMachineInstance | undefined, type: string) => {
  const found = findCondition(object?.status?.conditions, type);
  return found?.status === 'False' ? found : undefined;
};
const strategyOf = ({ spec }: VirtualMachine) => spec?.runStrategy ?? (spec?.running ? 'Always' : 'Halted');
const hasEnded = (dataVolume: DataVolume) => dataVolume.status?.phase === 'Succeeded';

/** First match wins. */
const rules: readonly Rule[] = [
  {
    rule: 'being-deleted',
    tell: ({ vm, vmi }) => {
      const object: KubeObject | undefined = vm ?? vmi;
      if (!object || !isBeingDeleted(object)) return undefined;
      const left = (object.metadata.finalizers ?? []).join(', ');
      return {
        waitsFor: `it is being deleted, and waits for what has to be taken down first${left && ` (${left})`}`,
        todo: [],
      };
    },
  },
  {
    rule: 'halted',
    tell: ({ vm, vmi, name, namespace }) => {
      if (!vm || (vmi && !isFinal(vmi))) return undefined;
      const strategy = strategyOf(vm);
      const isOver = vmi?.status?.phase === 'Succeeded' && ['Once', 'RerunOnFailure'].includes(strategy);
      if (strategy !== 'Halted' && strategy !== 'Manual' && !isOver) return undefined;
      if ((vm.status?.stateChangeRequests ?? []).some(({ action }) => action === 'Start')) return undefined;
      const why = isOver
        ? `its guest has ended, and runStrategy ${strategy} does not start it again`
        : `its runStrategy is ${strategy}`;
      return {
        waitsFor: `nothing: ${why}, so it runs when somebody starts it`,
        todo: [`virtctl start ${name} -n ${namespace}`],
      };
    },
  },
  {
    rule: 'ended',
    tell: ({ vm, vmi }) => {
      if (vm || !vmi || !isFinal(vmi)) return undefined;
      const why = findCondition(vmi.status?.conditions, 'Synchronized');
      const reason = why?.message ? ` (${said(why)})` : '';
      return {
        waitsFor: `nothing: it has ended as ${vmi.status?.phase}${reason}, and no VirtualMachine starts it again`,
        todo: ['delete the VirtualMachineInstance and create it again, or make a VirtualMachine of it'],
      };
    },
  },
  { rule: 'claim-missing', tell: missingClaim },
  { rule: 'data-volume-failed', tell: failedDataVolume },
  { rule: 'data-volume-filling', tell: fillingDataVolume },
  {
    rule: 'refused-by-quota',
    tell: ({ vm, vmi, quotas, namespace, events }) => {
      const texts = [findCondition(vm?.status?.conditions, 'Failure'), isFalse(vmi, 'Synchronized')].map(
        (each) => each?.message,
      );
      const words = [...texts, events.findLast(({ reason }) => reason === 'FailedCreate')?.message];
      const found = words.find((text) => text?.includes('exceeded quota'));
      if (found === undefined) return undefined;
      return {
        waitsFor: `room in the quota of its namespace: ${found}`,
        todo: [
          `kubectl describe quota ${quotas.join(' ')} -n ${namespace}`.replace('  ', ' '),
          'stop or delete other VMs there, give this one less CPU or memory, or raise the quota',
        ],
      };
    },
  },
  {
    rule: 'crash-loop',
    tell: ({ vm, vmi, name, namespace }) => {
      const { consecutiveFailCount = 0, retryAfterTimestamp } = vm?.status?.startFailure ?? {};
      if (consecutiveFailCount === 0 || (vmi && !isFinal(vmi))) return undefined;
      const when = retryAfterTimestamp === undefined ? '' : `, at ${retryAfterTimestamp}`;
      return {
        waitsFor: `its next start${when}: it has failed ${consecutiveFailCount} times in a row, and waits longer after each`,
        todo: [`kubectl describe vm ${name} -n ${namespace}: its events say what failed`],
      };
    },
  },
  {
    rule: 'refused',
    tell: ({ vm, vmi, name, namespace }) => {
      const failure = findCondition(vm?.status?.conditions, 'Failure');
      const found = failure?.status === 'True' ? failure : vmi && !vmi.status?.nodeName && isFalse(vmi, 'Synchronized');
      if (!found) return undefined;
      const kind = found === failure ? 'vm' : 'vmi';
      return {
        waitsFor: `a change of it, or of what it names: ${said(found)}`,
        todo: [`kubectl edit ${kind === 'vmi' && vm ? 'vm' : kind} ${name} -n ${namespace}`],
      };
    },
  },
  { rule: 'unschedulable', tell: unschedulable },
  { rule: 'container-waits', tell: waitingContainer },
  { rule: 'controller-away', tell: withoutController },
  {
    rule: 'on-a-node',
    tell: ({ vmi }) => {
      const node = vmi?.status?.nodeName;
      if (!node) return undefined;
      return {
        waitsFor: `the agent of node ${node}, which has it, and does not tell of it`,
        todo: ['virt-node status: does virt-handler run?'],
      };
    },
  },
  {
    rule: 'launcher-starts',
    tell: ({ pod, namespace }) => {
      const node = pod?.spec.nodeName;
      if (!node) return undefined;
      return {
        waitsFor: `its launcher pod ${pod.metadata.name} on node ${node}, which starts`,
        todo: [`kubectl describe pod ${pod.metadata.name} -n ${namespace}`],
      };
    },
  },
  {
    rule: 'pod-awaited',
    tell: ({ vmi, pod }) => {
      if (!vmi) return { waitsFor: 'virt-controller, which makes its VirtualMachineInstance', todo: [] };
      if (!pod) return { waitsFor: 'virt-controller, which makes its launcher pod', todo: [] };
      return { waitsFor: `a node for its launcher pod ${pod.metadata.name}`, todo: [] };
    },
  },
];

/** Why a VM is on no node, and what to do. Pure; of a VM or VMI that there is. */
export function tellWaiting(facts: WaitingFacts): WaitingStory {
  for (const { rule, tell } of rules) {
    const story = tell(facts);
    if (story) return { rule, ...story };
  }
  return { rule: 'unknown', waitsFor: 'nothing that this program knows of', todo: [] };
}

function missingClaim({ claims, dataVolumes, namespace }: WaitingFacts) {
  const made = new Set(dataVolumes.map(({ metadata }) => metadata.name));
  const missing = claims.filter(({ name, claim }) => !claim && !made.has(name)).map(({ name }) => name);
  if (missing.length === 0) return undefined;
  const are = missing.length === 1 ? 'PersistentVolumeClaim' : 'PersistentVolumeClaims';
  return {
    waitsFor: `the ${are} ${missing.join(', ')}, which ${missing.length === 1 ? 'does' : 'do'} not exist in namespace ${namespace}`,
    todo: ['create what is missing, or take the volume out of the VM; kubectl get pvc shows what there is'],
  };
}

function failedDataVolume({ dataVolumes, namespace }: WaitingFacts) {
  const failed = dataVolumes.find(({ status }) => status?.phase === 'Failed' || isStuck(status?.conditions));
  if (!failed) return undefined;
  const why = (failed.status?.conditions ?? []).find(({ message, status }) => message && status === 'False');
  return {
    waitsFor: `the DataVolume ${failed.metadata.name}, which could not be filled${why ? ` (${said(why)})` : ''}`,
    todo: [
      `kubectl describe datavolume ${failed.metadata.name} -n ${namespace}`,
      'mend its source (address, checksum, size), delete it, and it is made anew',
    ],
  };
}

/** Of an import that is tried again and again. */
function isStuck(conditions: readonly Condition[] | undefined): boolean {
  return (findCondition(conditions, 'Running')?.reason ?? '') === 'Error';
}

function fillingDataVolume({ dataVolumes, namespace }: WaitingFacts) {
  const filling = dataVolumes.filter((each) => !hasEnded(each));
  if (filling.length === 0) return undefined;
  const words = filling.map(({ metadata, status }) => {
    const progress = status?.progress && status.progress !== 'N/A' ? `, ${status.progress}` : '';
    return `${metadata.name} (${status?.phase ?? 'Pending'}${progress})`;
  });
  const isUpload = filling.some(({ status }) => status?.phase === 'UploadReady' || status?.phase === 'UploadScheduled');
  return {
    waitsFor: `its disks, which are still being filled: DataVolume ${words.join(', ')}`,
    todo: [
      isUpload
        ? 'virtctl image-upload dv NAME --image-path FILE brings what it waits for'
        : 'wait; it starts by itself',
      `kubectl get datavolumes -n ${namespace} -w`,
    ],
  };
}

function withoutController({ isControllerAway, vmi, pod }: WaitingFacts) {
  if (!isControllerAway || pod?.spec.nodeName) return undefined;
  const what = pod
    ? 'finds a node for its launcher pod'
    : `makes ${vmi ? 'its launcher pod' : 'its VirtualMachineInstance'}`;
  return {
    waitsFor: `virt-controller, which ${what} and does not answer`,
    todo: ['virt-node status: does it run? Its log is virt-controller.log in the directory of logs'],
  };
}

function unschedulable({ pod, vmi, nodes }: WaitingFacts) {
  const condition = [
    findCondition(pod?.status?.conditions, 'PodScheduled'),
    findCondition(vmi?.status?.conditions, 'PodScheduled'),
  ].find((each) => each?.status === 'False');
  if (!condition) return undefined;
  const none = nodes.ready === 0 ? ['no node takes VMs now: virt-node status says why'] : [];
  return {
    waitsFor: `a node that takes its launcher pod: ${condition.message || said(condition)}`,
    todo: [
      ...none,
      'kubectl describe nodes: free memory, taints, labels; kubectl uncordon NODE lets a cordoned one take VMs',
      'or give the VM less memory, or another node selector',
    ],
  };
}

function waitingContainer({ pod, namespace }: WaitingFacts) {
  const { containerStatuses = [], initContainerStatuses = [] } = pod?.status ?? {};
  const found = [...initContainerStatuses, ...containerStatuses].find(
    ({ state }) => state?.waiting?.reason && !['ContainerCreating', 'PodInitializing'].includes(state.waiting.reason),
  );
  const waiting = found?.state?.waiting;
  if (!pod || !found || !waiting) return undefined;
  const isImage = /Image/.test(waiting.reason ?? '');
  return {
    waitsFor: `the container ${found.name} of its pod ${pod.metadata.name}: ${said(waiting)}`,
    todo: isImage
      ? [`virt-node image add ${found.image} FILE puts the image on the node; virt-node image list shows what is there`]
      : [`kubectl describe pod ${pod.metadata.name} -n ${namespace}`],
  };
}
