import { readFile } from 'node:fs/promises';
import { cpus, release, totalmem } from 'node:os';
import { machineArchitecture } from '../../host/index.ts';
import { currentBootId } from '../process-identity.ts';
import type { StandaloneMachine } from './node-objects.ts';

/** What is the same for every node of this machine. */
export async function machineFacts(): Promise<Omit<StandaloneMachine, 'nodes' | 'kvm'>> {
  const osRelease = await readFile('/etc/os-release', 'utf8').catch(() => '');
  return {
    cpus: cpus().length,
    memoryBytes: totalmem(),
    architecture: machineArchitecture(),
    kernelVersion: release(),
    osImage: /^PRETTY_NAME="?([^"\n]*)/m.exec(osRelease)?.[1] ?? 'Linux',
    bootId: await currentBootId(),
  };
}
