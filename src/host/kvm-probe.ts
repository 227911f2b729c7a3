import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { errorMessage } from '../base/index.ts';
import { buildProbeRom, exitPort, expectedExitCode } from './probe-rom.ts';

export interface KvmProbeOptions {
  /** Default `qemu-system-x86_64`, found on PATH. */
  readonly qemuPath?: string;
  /** Device that must exist for `accelerator: 'kvm'`. Default `/dev/kvm`. */
  readonly device?: string;
  /** The guest answers within some 100 ms where KVM works. Default 3000. */
  readonly timeoutMs?: number;
  /** `tcg` proves the probe itself: it must answer "usable" on every machine. Default `kvm`. */
  readonly accelerator?: 'kvm' | 'tcg';
}

export interface KvmProbeResult {
  readonly usable: boolean;
  /** One sentence for logs and errors. */
  readonly reason: string;
  readonly tookMs: number;
}

const maxStderrBytes = 4096;

/**
 * Does a guest really run on KVM here? The device alone proves nothing: on some virtual machines guests hang on it. Starts
 * QEMU with a tiny BIOS and expects its exit code in time; QEMU is killed otherwise. Never throws.
 */
export async function probeKvm(options: KvmProbeOptions = {}): Promise<KvmProbeResult> {
  const started = performance.now();
  const answer = await runProbe(options).catch((error: unknown) => ({
    usable: false,
    reason: `the KVM probe could not run: ${errorMessage(error)}`,
  }));
  return { ...answer, tookMs: Math.round(performance.now() - started) };
}

async function runProbe(options: KvmProbeOptions): Promise<Omit<KvmProbeResult, 'tookMs'>> {
  const accelerator = options.accelerator ?? 'kvm';
  const device = options.device ?? '/dev/kvm';
  if (accelerator === 'kvm') {
    const problem = await access(device, constants.R_OK | constants.W_OK).then(
      () => undefined,
      (error: unknown) => errorMessage(error),
    );
    if (problem !== undefined) return { usable: false, reason: `${device} cannot be opened: ${problem}` };
  }
  const dir = await mkdtemp(path.join(tmpdir(), 'kvm-probe-'));
  try {
    const rom = path.join(dir, 'rom.bin');
    await writeFile(rom, buildProbeRom());
    return await bootRom({
      rom,
      accelerator,
      qemuPath: options.qemuPath ?? 'qemu-system-x86_64',
      timeoutMs: options.timeoutMs ?? 3000,
    });
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

interface BootOptions {
  readonly rom: string;
  readonly accelerator: string;
  readonly qemuPath: string;
  readonly timeoutMs: number;
}

function bootRom(options: BootOptions): Promise<Omit<KvmProbeResult, 'tookMs'>> {
  const { accelerator, timeoutMs } = options;
  return new Promise((resolve) => {
    const child = spawnQemu(options);
    let stderr = '';
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      child.kill('SIGKILL');
    }, timeoutMs);
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-maxStderrBytes);
    });
    child.on('error', (error) => {
      clearTimeout(timer);
      resolve({ usable: false, reason: `${options.qemuPath} cannot be started: ${error.message}` });
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      if (timedOut) {
        resolve({ usable: false, reason: `a guest hangs on ${accelerator}: no answer within ${timeoutMs} ms` });
      } else if (code === expectedExitCode) {
        resolve({ usable: true, reason: `a guest runs on ${accelerator}` });
      } else {
        const end = signal ? `signal ${signal}` : `code ${code}`;
        resolve({ usable: false, reason: `QEMU ended with ${end} on ${accelerator}: ${lastLine(stderr)}` });
      }
    });
  });
}

function spawnQemu({ rom, accelerator, qemuPath }: BootOptions): ChildProcess {
  const args = ['-accel', accelerator, '-M', 'pc', '-m', '16', '-nodefaults', '-no-user-config', '-display', 'none'];
  args.push('-no-reboot', '-bios', rom, '-device', `isa-debug-exit,iobase=0x${exitPort.toString(16)},iosize=1`);
  return spawn(qemuPath, args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) || 'no message';
}
