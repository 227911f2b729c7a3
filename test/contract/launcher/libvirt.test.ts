import { after } from 'node:test';
import { LauncherBench } from '../../fixtures/launcher-bench.ts';
import { launcherCases } from './cases.ts';
import type { LauncherSubject } from './subject.ts';

let bench: LauncherBench | undefined;
after(() => bench?.dispose());

/** src/launcher in a pod of its own, with real libvirt and QEMU. */
async function start(): Promise<LauncherSubject> {
  bench ??= await LauncherBench.create();
  const pod = await bench.startPod();
  const agent = await bench.startAgent(pod);
  const cmd = await bench.callerOf(pod);
  const close = async () => {
    cmd.close();
    await pod.close();
    await agent.close();
  };
  return { cmd, commandSocket: pod.commandSocket, agent, ended: pod.exited, close };
}

launcherCases('src/launcher with libvirt and QEMU', start);
