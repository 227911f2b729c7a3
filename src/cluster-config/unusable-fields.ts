import { parseQuantity, readLabelSelector } from '../api/index.ts';
import { isRecord, memberAt } from '../base/index.ts';
import { unusableMigrationConfig } from './migration-config.ts';

/** Whether a value can be used, and what it must be, to be read after the field's name. */
interface Check {
  readonly isUsable: (value: unknown) => boolean;
  readonly mustBe: string;
}

/** Problems beyond this many are not listed. */
const maxProblems = 10;

const isWhole = (value: unknown) => typeof value === 'number' && Number.isInteger(value) && value >= 0;
const isPositive = (value: unknown) => typeof value === 'number' && value > 0 && Number.isFinite(value);
const isText = (value: unknown) => typeof value === 'string';

const object: Check = { isUsable: isRecord, mustBe: 'an object' };
const list: Check = { isUsable: Array.isArray, mustBe: 'a list' };
const text: Check = { isUsable: isText, mustBe: 'a string' };
const flag: Check = { isUsable: (value) => typeof value === 'boolean', mustBe: 'true or false' };
const whole: Check = { isUsable: isWhole, mustBe: 'a whole number, 0 or more' };
const positive: Check = { isUsable: (value) => isWhole(value) && isPositive(value), mustBe: 'above 0, and whole' };
const quantity: Check = {
  isUsable: (value) => (parseQuantity(value as string | number) ?? 0) > 0,
  mustBe: 'a quantity above 0',
};
const selector: Check = { isUsable: (value) => readLabelSelector(value) !== undefined, mustBe: 'a label selector' };

function oneOf(...words: readonly string[]): Check {
  return { isUsable: (value) => value === '' || words.includes(value as string), mustBe: `one of ${words.join(', ')}` };
}

function mapOf(isValue: (value: unknown) => boolean, what: string): Check {
  return { isUsable: (value) => isRecord(value) && Object.values(value).every(isValue), mustBe: `a map of ${what}` };
}

const rateLimiter = 'handlerConfiguration.restClient.rateLimiter.tokenBucketRateLimiter';
const architectures = ['amd64', 'arm64', 's390x'];

/** Fields for which a default, taken silently for a value that cannot be used, would be worse than the last good configuration. */
const checks: Readonly<Record<string, Check>> = {
  smbios: mapOf(isText, 'strings'),
  virtualMachineOptions: object,
  memBalloonStatsPeriod: {
    isUsable: (value) => isWhole(value) && Number(value) <= 0xffff_ffff,
    mustBe: 'a whole number of seconds',
  },
  imagePullPolicy: oneOf('Always', 'IfNotPresent', 'Never'),
  machineType: text,
  ovmfPath: text,
  cpuModel: text,
  evictionStrategy: text,
  defaultRuntimeClass: text,
  vmStateStorageClass: text,
  additionalGuestMemoryOverheadRatio: quantity,
  vmRolloutStrategy: oneOf('LiveUpdate', 'Stage'),
  'instancetype.referencePolicy': oneOf('reference', 'expand', 'expandAll'),
  'liveUpdateConfiguration.maxHotplugRatio': positive,
  'liveUpdateConfiguration.maxCpuSockets': whole,
  'liveUpdateConfiguration.maxGuest': quantity,
  'network.defaultNetworkInterface': oneOf('bridge', 'slirp', 'masquerade'),
  architectureConfiguration: object,
  ...Object.fromEntries(
    architectures.flatMap((architecture) => [
      [`architectureConfiguration.${architecture}.machineType`, text],
      [`architectureConfiguration.${architecture}.ovmfPath`, text],
    ]),
  ),
  developerConfiguration: object,
  'developerConfiguration.featureGates': list,
  'developerConfiguration.disabledFeatureGates': list,
  'developerConfiguration.useEmulation': flag,
  'developerConfiguration.nodeSelectors': mapOf(isText, 'strings'),
  'developerConfiguration.memoryOvercommit': positive,
  'developerConfiguration.cpuAllocationRatio': positive,
  'developerConfiguration.minimumClusterTSCFrequency': positive,
  'developerConfiguration.minimumReservePVCBytes': whole,
  'developerConfiguration.diskVerification.memoryLimit': quantity,
  'developerConfiguration.pvcTolerateLessSpaceUpToPercent': {
    isUsable: (value) => typeof value === 'number' && value >= 0 && value <= 100,
    mustBe: 'from 0 to 100',
  },
  'developerConfiguration.logVerbosity': object,
  'developerConfiguration.logVerbosity.virtHandler': whole,
  'developerConfiguration.logVerbosity.virtLauncher': whole,
  'developerConfiguration.logVerbosity.nodeVerbosity': mapOf(isWhole, 'whole numbers'),
  [rateLimiter]: object,
  [`${rateLimiter}.qps`]: { isUsable: (value) => value === 0 || isPositive(value), mustBe: '0 or more' },
  [`${rateLimiter}.burst`]: whole,
  obsoleteCPUModels: object,
  ksmConfiguration: object,
  'ksmConfiguration.nodeLabelSelector': selector,
  autoCPULimitNamespaceLabelSelector: selector,
};

/**
 * Why `spec.configuration` cannot be used, with each field and what it must be; undefined when it can. One field that cannot be
 * used spoils all of it, so that no program of the cluster sees another half of it. Absent and null are never wrong.
 */
export function whyUnusable(configuration: unknown): string | undefined {
  const problems = unusableFields(configuration);
  if (problems.length === 0) return undefined;
  return `spec.configuration of the KubeVirt object cannot be used: ${problems.slice(0, maxProblems).join('; ')}`;
}

function unusableFields(configuration: unknown): string[] {
  if (configuration !== undefined && configuration !== null && !isRecord(configuration)) {
    return ['configuration must be an object'];
  }
  const wrong = Object.entries(checks).filter(([path, { isUsable }]) => {
    const value = memberAt(configuration, ...path.split('.'));
    return value !== undefined && !isUsable(value);
  });
  const migrations = unusableMigrationConfig(configuration).map((path) => `${path} has a value that does not fit`);
  return [...wrong.map(([path, { mustBe }]) => `${path} must be ${mustBe}`), ...migrations];
}
