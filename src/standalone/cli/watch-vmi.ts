import { findCondition, resources, type VirtualMachineInstance } from '../../api/index.ts';
import { sleep } from '../../base/index.ts';
import { Informer, type KubeClient } from '../../kube/index.ts';
import { NodeError } from '../errors.ts';

export interface WatchVmiOptions {
  readonly namespace: string;
  readonly name: string;
  /** Called with each new phase and with what hinders the start. */
  readonly onChange: (text: string) => void;
}

/**
 * Waits until the VMI runs. Rejects with NodeError CHILD_FAILED when it ends as Failed, or with the signal's reason. The end
 * of one that was there before is passed over (the node was killed, or stopped): its VirtualMachine makes a new one.
 */
export async function untilVmiRuns(
  client: KubeClient,
  options: WatchVmiOptions,
  signal: AbortSignal,
): Promise<VirtualMachineInstance> {
  const { namespace, name, onChange } = options;
  const informer = new Informer<VirtualMachineInstance>(
    { type: resources.virtualMachineInstances, namespace, backoff: { baseMs: 100, maxMs: 1_000 } },
    { client },
  );
  let reported = '';
  let earlier: string | undefined;
  try {
    await informer.start();
    return await new Promise<VirtualMachineInstance>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      const see = (vmi: VirtualMachineInstance, isFirst: boolean) => {
        if (vmi.metadata.name !== name) return;
        const phase = vmi.status?.phase || 'Pending';
        if (isFirst) earlier = vmi.metadata.uid;
        if ((phase === 'Succeeded' || phase === 'Failed') && vmi.metadata.uid === earlier) return;
        const problem = findCondition(vmi.status?.conditions, 'Synchronized');
        const text = problem?.status === 'False' ? `${phase}: ${problem.reason}: ${problem.message}` : phase;
        if (text !== reported) onChange(text);
        reported = text;
        if (phase === 'Running') resolve(vmi);
        if (phase === 'Failed') reject(new NodeError('CHILD_FAILED', `the VM failed to start (${text})`));
      };
      let isListing = true;
      informer.addHandlers({ added: (vmi) => see(vmi, isListing), updated: (_, vmi) => see(vmi, false) });
      informer.waitForSync(signal).then(
        () => {
          isListing = false;
        },
        () => undefined,
      );
    });
  } finally {
    await informer.stop();
  }
}

/** Waits until neither the VMI nor a pod of it is in the API. Rejects with the signal's reason. */
export async function untilVmiGone(client: KubeClient, options: WatchVmiOptions, signal: AbortSignal): Promise<void> {
  const { namespace, name } = options;
  for (;;) {
    const [vmis, pods] = await Promise.all([
      client.list(resources.virtualMachineInstances, { namespace, signal }),
      client.list(resources.pods, { namespace, signal }),
    ]);
    const left = [
      ...vmis.items.filter((vmi) => vmi.metadata.name === name),
      ...pods.items.filter((pod) => pod.metadata.name.startsWith(`virt-launcher-${name}-`)),
    ];
    if (left.length === 0) return;
    await sleep(100, signal);
  }
}
