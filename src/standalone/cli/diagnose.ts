import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { type EventObject, resources, type VirtualMachineInstance } from '../../api/index.ts';
import { errorMessage } from '../../base/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import type { NodePaths } from '../paths.ts';
import { logTail } from '../pod-runner/index.ts';
import { askExplain } from './explain.ts';

/** What helps to see why a VM did not start: conditions, events, ends of logs. Never throws. */
export async function diagnose(client: KubeClient | undefined, paths: NodePaths): Promise<string[]> {
  const lines = client ? await fromApi(client).catch(() => ['the Kubernetes API does not answer']) : [];
  const question = { stateDir: paths.stateDir, socket: paths.agentSocket, namespace: '', output: 'text' } as const;
  lines.push('--- what virt-handler decided', await askExplain(question).catch(errorMessage));
  const files = (await readdir(paths.logDir).catch(() => [])).filter((name) => name.endsWith('.log'));
  const pods = await readdir(paths.podLogsDir).catch(() => []);
  const logs = [
    ...files.map((name) => path.join(paths.logDir, name)),
    ...pods.map((uid) => path.join(paths.podLogsDir, uid, 'compute.log')),
  ];
  for (const file of logs) {
    const tail = await logTail(file).catch(() => '');
    if (tail) lines.push(`--- end of ${file}`, tail);
  }
  return lines;
}

async function fromApi(client: KubeClient): Promise<string[]> {
  const vmis = await client.list<VirtualMachineInstance>(resources.virtualMachineInstances);
  const events = await client.list<EventObject>(resources.events);
  return [
    ...vmis.items.flatMap((vmi) => [
      `VMI ${vmi.metadata.name}: ${vmi.status?.phase ?? 'no phase'}`,
      ...(vmi.status?.conditions ?? []).map(
        ({ type, status, reason = '', message = '' }) => `  ${type}=${status} ${reason} ${message}`,
      ),
    ]),
    ...events.items
      .slice(-20)
      .map(
        ({ type, reason, message, involvedObject }) => `event ${type} ${involvedObject.name}: ${reason}: ${message}`,
      ),
  ];
}
