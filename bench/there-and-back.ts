import { untilLogin } from '../src/standalone/index.ts';
import { demoVmi, NodeProcess } from '../test/fixtures/node-process.ts';
import type { Figure } from './figures.ts';

export interface ThereAndBackOptions {
  /** Moves; every second one brings the guest back. */
  readonly moves: number;
  readonly say: (text: string) => void;
}

const name = 'traveller';

/** In the guest: a pattern in memory that stays, and records that are written to memory and to the disk of a claim all the time. */
const writer = [
  'head -c 16777216 /dev/urandom >/tmp/pattern',
  'sha256sum /tmp/pattern >/tmp/pattern.sum',
  'cat /proc/sys/kernel/random/boot_id >/tmp/boot',
  "cat >/tmp/writer <<'END'",
  'i=0',
  ': >/tmp/log',
  'while [ $i -lt 45000 ]; do',
  '  { printf "%08d" $i; head -c 504 /dev/urandom; } >/tmp/record',
  '  cat /tmp/record >>/tmp/log',
  '  dd if=/tmp/record of=/dev/vda bs=512 seek=$i conv=notrunc,fsync 2>/dev/null || exit 1',
  '  i=$((i+1))',
  '  echo $i >/tmp/done',
  'done',
  'END',
  'sh /tmp/writer >/dev/null 2>&1 &',
].join('\n');

/** Memory, disk without the guest's cache, and how far the writer is. */
const check = [
  "cat >/tmp/check <<'END'",
  'n=$(cat /tmp/done)',
  'echo 3 >/proc/sys/vm/drop_caches',
  'cmp /tmp/boot /proc/sys/kernel/random/boot_id && sha256sum -c /tmp/pattern.sum >/dev/null || echo "memory WRONG"',
  'head -c $((n*512)) /tmp/log >/tmp/want',
  'dd if=/dev/vda bs=512 count=$n 2>/dev/null | cmp - /tmp/want || echo "disk WRONG"',
  'echo "checked" $n "records"',
  'END',
].join('\n');
/** The console of a command ends when the guest is silent. */
const runCheck =
  'sh /tmp/check >/tmp/found 2>&1 & p=$!; while kill -0 $p 2>/dev/null; do echo .; usleep 100000; done; cat /tmp/found';

/** A guest that writes to memory and disk moves between two nodes of this machine, and checks both after each move. Rejects at the first fault. */
export async function thereAndBack({ moves, say }: ThereAndBackOptions): Promise<Figure[]> {
  const node = await NodeProcess.create();
  try {
    await node.start(['start', '--nodes', '2', '--node-name', 'box', '--web-port', '0']);
    await boot(node);
    const tookMs: number[] = [];
    let written = 0;
    for (let move = 1; move <= moves; move++) {
      const beganMs = performance.now();
      const { code, stderr } = await node.cli(['migrate', name]);
      if (code !== 0) throw new Error(`move ${move} of ${moves}: ${stderr}`);
      tookMs.push(performance.now() - beganMs);
      written = await checked(node, written);
      say(
        `move ${move} of ${moves}: ${tookMs.at(-1)?.toFixed(0)} ms, memory and ${written} records on the disk are right`,
      );
    }
    return [
      { name: 'moves, memory and disk right after each', unit: '1', samples: [tookMs.length] },
      { name: 'a move, as virt-node migrate takes it', unit: 'ms', samples: tookMs },
    ];
  } finally {
    await node.dispose();
  }
}

async function boot(node: NodeProcess): Promise<void> {
  await node.apply({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name },
    spec: { accessModes: ['ReadWriteMany'], resources: { requests: { storage: '64Mi' } } },
  });
  const vmi = demoVmi(name);
  const { domain } = vmi.spec;
  const disks = [{ name, disk: { bus: 'virtio' } }];
  const spec = {
    ...vmi.spec,
    domain: { ...domain, memory: { guest: '192Mi' }, devices: { ...domain.devices, disks } },
    volumes: [{ name, persistentVolumeClaim: { claimName: name } }],
  };
  await node.apply({ ...vmi, spec });
  await node.vmiUntil(name, (found) => found?.status?.phase === 'Running', 120_000);
  await untilLogin(await node.serial(name), AbortSignal.timeout(120_000));
  await node.cli(['console', name], `root\n`);
  await node.cli(['console', name], `${writer}\n`);
  await node.cli(['console', name], `${check}\n`);
}

/** How many records are on the disk; more than before. */
async function checked(node: NodeProcess, before: number): Promise<number> {
  const endMs = performance.now() + 120_000;
  for (;;) {
    const { stdout } = await node.cli(['console', name], `\n${runCheck}\n`);
    const written = Number(/checked (\d+) records/.exec(stdout)?.[1] ?? 0);
    if (/^(memory|disk) WRONG/m.test(stdout)) throw new Error(`the guest found a fault:\n${stdout}`);
    if (written > before) return written;
    if (performance.now() > endMs) throw new Error(`the guest does not go on:\n${stdout}`);
  }
}
