import { type KubeObject, labels, tscFrequencyOf, type VirtualMachineInstance } from '../../api/index.ts';

/** Of the node labeller (upstream: pkg/virt-handler/node-labeller). */
const ownLabel = 'cpu-timer.node.kubevirt.io/tsc-frequency';
const scalableLabel = 'cpu-timer.node.kubevirt.io/tsc-scalable';
/** Upstream: staging/src/kubevirt.io/api/core/v1/types.go; launcher pods ask for them. */
const givenLabel = 'scheduling.node.kubevirt.io/tsc-frequency-';

/** QEMU takes a frequency that is off by so many parts of the machine's own for the same. */
const tolerance = 250 / 1_000_000;

type Node = Pick<KubeObject, 'metadata'>;
type Vmis = readonly VirtualMachineInstance[];

/** In hertz; undefined: the node says none, or no number of hertz. */
function ownFrequency({ metadata }: Node): number | undefined {
  const text = metadata.labels?.[ownLabel] ?? '';
  const frequency = /^\d{1,15}$/.test(text) ? Number(text) : 0;
  return frequency > 0 ? frequency : undefined;
}

/**
 * What a new guest gets, in hertz: `configured`, or the lowest of nodes where guests start or run, as each node can give that one. 0: no node tells one
 * (upstream: LowestTSCFrequencyOnCluster in pkg/virt-controller/watch/topology/hinter.go).
 */
export function lowestFrequency(nodes: Iterable<Node>, vmis: Vmis, configured: number | undefined): number {
  if (configured !== undefined) return configured;
  const withGuests = new Set(vmis.map(({ status }) => status?.nodeName));
  let lowest = 0;
  for (const node of nodes) {
    const frequency = ownFrequency(node);
    const counts = node.metadata.labels?.[labels.schedulable] === 'true' || withGuests.has(node.metadata.name);
    if (frequency !== undefined && counts && (lowest === 0 || frequency < lowest)) lowest = frequency;
  }
  return lowest;
}

/** Of guests that were given one, and the one that a new guest gets; in hertz. */
export function wantedFrequencies(vmis: Vmis, lowest: number): ReadonlySet<number> {
  const wanted = new Set(lowest > 0 ? [lowest] : []);
  for (const vmi of vmis) {
    const frequency = tscFrequencyOf(vmi);
    if (frequency !== undefined) wanted.add(frequency);
  }
  return wanted;
}

/**
 * Labels of a node to be set (`true`) or removed (null), so that it says what it can give of that (upstream: CalculateTSCLabelDiff, which leaves the labels of a
 * node that does not tell its frequency any more).
 */
export function labelChanges(node: Node, wanted: ReadonlySet<number>): Readonly<Record<string, 'true' | null>> {
  const { labels: own = {} } = node.metadata;
  const given = new Set(frequenciesGiven(node, wanted).map((frequency) => givenLabel + frequency));
  const left = Object.keys(own).filter((key) => key.startsWith(givenLabel) && !given.has(key));
  const added = [...given].filter((key) => own[key] !== 'true');
  return Object.fromEntries([
    ...left.map((key) => [key, null] as const),
    ...added.map((key) => [key, 'true'] as const),
  ]);
}

/** A processor that scales its counter gives any that is not above its own. */
function frequenciesGiven(node: Node, wanted: ReadonlySet<number>): number[] {
  const own = ownFrequency(node);
  if (own === undefined) return [];
  const isScalable = node.metadata.labels?.[scalableLabel] === 'true';
  const fits = (frequency: number) => Math.abs(frequency - own) <= Math.floor(own * tolerance);
  return [...new Set([own, ...wanted])].filter((each) => fits(each) || (isScalable && each < own));
}

/** A kubelet and an agent write their node all the time, and little of it is about this. */
export function saysTheSame({ metadata: one }: Node, { metadata: other }: Node): boolean {
  const said = ({ labels: own = {} }: Node['metadata']) =>
    Object.entries(own)
      .filter(([key]) => [ownLabel, scalableLabel, labels.schedulable].includes(key) || key.startsWith(givenLabel))
      .map(([key, value]) => `${key}=${value}`)
      .sort()
      .join();
  return one.uid === other.uid && said(one) === said(other);
}
