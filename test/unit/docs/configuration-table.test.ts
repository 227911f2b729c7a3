import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agentFlags } from '../../../src/agent/flags.ts';
import { deviceSettings } from '../../../src/agent/node/devices/device-settings.ts';
import { mediatedSettings } from '../../../src/agent/node/devices/mediated-wish.ts';
import { agentConfigReader, gateNames } from '../../../src/cluster-config/index.ts';
import { readTlsSettings } from '../../../src/tls/index.ts';
import { rows } from './guide-tables.ts';

/** The guide's tables of configuration: which fields are read is seen by handing over an object that notes what it is asked for. */

const full = {
  smbios: { manufacturer: 'm', product: 'p', family: 'f', version: 'v', sku: 's' },
  memBalloonStatsPeriod: 10,
  evictionStrategy: 'None',
  imagePullPolicy: 'Always',
  supportedGuestAgentVersions: ['5.*'],
  obsoleteCPUModels: { old: true },
  virtualMachineOptions: { disableFreePageReporting: {}, disableSerialConsoleLog: {} },
  tlsConfiguration: { minTLSVersion: 'VersionTLS12', ciphers: [] },
  hypervisors: [{ name: 'kvm' }],
  ksmConfiguration: { nodeLabelSelector: { matchLabels: { a: 'b' } } },
  persistentReservationConfiguration: {},
  confidentialCompute: { tdx: { attestation: { enforced: true, qgsSocketPath: '/s' } } },
  mediatedDevicesConfiguration: {
    enabled: true,
    mediatedDeviceTypes: [],
    mediatedDevicesTypes: [],
    nodeMediatedDeviceTypes: [{ nodeSelector: {}, mediatedDeviceTypes: [], mediatedDevicesTypes: [] }],
  },
  network: { defaultNetworkInterface: 'masquerade', binding: { plugin: { domainAttachmentType: 'tap' } } },
  developerConfiguration: {
    featureGates: ['ConfigurableHypervisor'],
    disabledFeatureGates: [],
    useEmulation: false,
    memoryOvercommit: 100,
    cpuAllocationRatio: 10,
    minimumClusterTSCFrequency: 1,
    minimumReservePVCBytes: 1,
    pvcTolerateLessSpaceUpToPercent: 10,
    clusterProfiler: false,
    logVerbosity: { virtHandler: 2, nodeVerbosity: {} },
  },
  handlerConfiguration: { restClient: { rateLimiter: { tokenBucketRateLimiter: { qps: 1, burst: 1 } } } },
  permittedHostDevices: {
    pciHostDevices: [{ resourceName: 'example.com/a', pciVendorSelector: '10de:1eb8' }],
    mediatedDevices: [{ resourceName: 'example.com/b', mdevNameSelector: 'type' }],
    usb: [{ resourceName: 'example.com/c', selectors: [{ vendor: '046d', product: 'c52b' }] }],
  },
  liveUpdateConfiguration: { maxHotplugRatio: 4, maxCpuSockets: 8, maxGuest: '8Gi' },
  instancetype: { referencePolicy: 'expand' },
  architectureConfiguration: { amd64: { machineType: 'q35' } },
  migrations: { experimental: { stallDetector: {} } },
};

/** `full`, noting the path of each field that is asked for, below lists as well. */
function noting(value: unknown, path: string, note: (path: string) => void): unknown {
  if (typeof value !== 'object' || value === null) return value;
  return new Proxy(value, {
    get(target, key, receiver) {
      const found: unknown = Reflect.get(target, key, receiver);
      if (typeof key === 'symbol' || key in Object.prototype || Array.isArray(target)) return noting(found, path, note);
      const below = path === '' ? key : `${path}.${key}`;
      note(below);
      return noting(found, below, note);
    },
  });
}

function readPaths(): string[] {
  const paths = new Set<string>();
  const configuration = noting(full, '', (path) => paths.add(path));
  const kubevirt = { metadata: { name: 'kubevirt' }, spec: { configuration }, status: { phase: 'Deployed' } };
  const reading = agentConfigReader('node1').read(kubevirt as never);
  assert.ok(reading.kind === 'usable');
  const { config } = reading;
  assert.equal(config.node.hypervisor, 'kvm');
  assert.deepEqual(deviceSettings(config).refusals, []);
  assert.deepEqual(mediatedSettings(config.node).problems, []);
  readTlsSettings((configuration as typeof full).tlsConfiguration);
  return [...paths].filter((path) => ![...paths].some((other) => other.startsWith(`${path}.`)));
}

/** `a.b`, `.c` → a.b, a.c. */
function fieldsOf(cell: string): string[] {
  const [first = '', ...more] = cell.split(', ');
  const stem = first.slice(0, first.lastIndexOf('.'));
  return [first, ...more.map((name) => (name.startsWith('.') ? stem + name : name))];
}

const documented = rows('configuration.md', 'Field').flatMap(([cell = '']) => fieldsOf(cell));
const covers = (row: string, path: string) => path === row || path.startsWith(`${row}.`);

test('every field of the configuration that the agent reads has a row in the guide', () => {
  const paths = readPaths();
  assert.ok(paths.length > 40, `${paths.length} read`);
  assert.deepEqual(
    paths.filter((path) => !documented.some((row) => covers(row, path))),
    [],
  );
});

test('the guide names no field that the agent does not read', () => {
  const paths = readPaths();
  assert.deepEqual(
    documented.filter((row) => !paths.some((path) => covers(row, path))),
    [],
  );
});

test('every feature gate that is read has a row in the guide, and no other', () => {
  const gates = rows('configuration.md', 'Gate').map(([gate]) => gate);
  assert.deepEqual(gates.sort(), [...gateNames].sort());
});

test('every flag has a row in the guide with its default, and no other', () => {
  const reported = rows('configuration.md', 'Flag').map(([flag, fallback]) => `${flag} ${fallback}`);
  const shown = (fallback: unknown) => (String(fallback) === '' ? '–' : String(fallback));
  const flags = Object.entries(agentFlags).map(([name, { kind, fallback }]) => {
    const value = kind === 'duration' ? `${Number(fallback) / 1000}s` : shown(fallback);
    return `${name === 'v' ? '-v' : `--${name}`} ${value}`;
  });
  assert.deepEqual(reported.sort(), flags.sort());
});
