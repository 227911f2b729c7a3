import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { reportXml, vmFigures } from '../../../../../src/agent/serve/downward-metrics/figures.ts';
import { HostFiguresReader } from '../../../../../src/agent/serve/downward-metrics/host-figures.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import { domainStatsJson } from '../../../../fixtures/domain-stats.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';

const vm = { cpuSeconds: 3.5, onlineVcpus: 1, balloonKib: 4 };

test('the document has all metrics in the order and the form in which upstream writes them', () => {
  const host = {
    ...{ cpus: 2, cpuSeconds: 7, swapped: { inKib: 4, outKib: 8 } },
    memory: { free: 1, freeVirtual: 2, used: 3, usedVirtual: -4 },
  };
  const xml = reportXml({ nodeName: 'a<b', hypervisor: 'QEMU 7.2.22', vm, host, nowMs: 1_700_000_000_999 });
  const rows = [
    ['string', 'host', '', 'HostName', 'a&lt;b'],
    ['string', 'host', '', 'HostSystemInfo', 'linux'],
    ['string', 'host', '', 'VirtualizationVendor', 'kubevirt.io'],
    ['string', 'host', '', 'VirtProductInfo', 'QEMU 7.2.22'],
    ['real64', 'vm', ' unit="s"', 'TotalCPUTime', '3.500000'],
    ['int64', 'vm', '', 'ResourceProcessorLimit', '1'],
    ['uint64', 'vm', ' unit="KiB"', 'PhysicalMemoryAllocatedToVirtualSystem', '4'],
    ['uint64', 'vm', ' unit="KiB"', 'ResourceMemoryLimit', '4'],
    ['int64', 'host', '', 'NumberOfPhysicalCPUs', '2'],
    ['real64', 'host', ' unit="s"', 'TotalCPUTime', '7.000000'],
    ['uint64', 'host', ' unit="KiB"', 'FreePhysicalMemory', '1'],
    ['uint64', 'host', ' unit="KiB"', 'FreeVirtualMemory', '2'],
    ['uint64', 'host', ' unit="KiB"', 'MemoryAllocatedToVirtualServers', '3'],
    ['uint64', 'host', ' unit="KiB"', 'UsedVirtualMemory', '0'],
    ['uint64', 'host', ' unit="KiB"', 'PagedInMemory', '4'],
    ['uint64', 'host', ' unit="KiB"', 'PagedOutMemory', '8'],
    ['int64', 'host', ' unit="s"', 'Time', '1700000000'],
  ];
  const metrics = rows.map(
    ([type, context, unit, name, value]) =>
      `  <metric type="${type}" context="${context}"${unit}>\n    <name>${name}</name>\n    <value>${value}</value>\n  </metric>\n`,
  );
  assert.equal(xml, `<metrics>\n${metrics.join('')}</metrics>`);
});

test('figures of the VM: time of all CPUs, those that are on, the balloon; hostile figures count as none', () => {
  assert.deepEqual(vmFigures(domainStatsJson()), vm);
  assert.equal(vmFigures(''), undefined);
  assert.equal(vmFigures('{"Name":""}'), undefined);
  const none = { cpuSeconds: 0, onlineVcpus: 0, balloonKib: 0 };
  assert.deepEqual(vmFigures('{"Name":"a","Vcpu":[7,{"Time":-1},{"Time":"x"}],"Memory":[]}'), none);
  assert.throws(() => vmFigures('[]'), /no object/);
  assert.throws(() => vmFigures('x'.repeat(2 ** 20 + 1)), /too large/);
});

test('figures of the machine come from its own files, once for all who ask at a time', async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), 'host-figures-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const clock = new FakeClock();
  const put = (file: string, text: string) => {
    mkdirSync(path.dirname(path.join(dir, file)), { recursive: true });
    writeFileSync(path.join(dir, file), text);
  };
  put('proc/stat', 'cpu  100 200 400 5000 1 0 0 0 0 0\ncpu0 1 1 1 1 0 0 0 0 0 0\n');
  put(
    'proc/meminfo',
    'MemTotal:  1000 kB\nMemFree: 100 kB\nBuffers: 10 kB\nCached: 20 kB\nSwapCached: 5 kB\nSwapTotal: 50 kB\nSwapFree: 40 kB\n',
  );
  put('proc/vmstat', 'pswpin 2\npswpout 3\n');
  for (const cpu of [0, 1, 2]) put(`sys/devices/system/cpu/cpu${cpu}/topology/physical_package_id`, `${cpu % 2}\n`);
  const reader = new HostFiguresReader(
    { procDir: path.join(dir, 'proc'), sysDir: path.join(dir, 'sys') },
    { clock, log: silentLogger },
  );
  const figures = {
    ...{ cpus: 2, cpuSeconds: 7, swapped: { inKib: 8, outKib: 12 } },
    memory: { free: 100, freeVirtual: 140, used: 870, usedVirtual: 915 },
  };
  assert.deepEqual(await reader.read(), figures);
  rmSync(path.join(dir, 'proc/meminfo'));
  assert.deepEqual(await reader.read(), figures);
  clock.advance(1000);
  const { memory: _gone, ...rest } = figures;
  assert.deepEqual(await reader.read(), rest);
});
