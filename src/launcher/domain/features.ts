import {
  type FeatureState,
  isSwitchedOn,
  tscFrequencyOf,
  tscNeed,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { architectureOf } from './architecture.ts';
import { invalid } from './errors.ts';
import { isSecureBoot } from './firmware.ts';
import { launchSecurityKind } from './launch-security.ts';
import type { XmlContent } from './xml.ts';

type HypervState = FeatureState & {
  spinlocks?: number;
  vendorid?: string;
  direct?: FeatureState;
  extended?: FeatureState;
};

/** VMI name → libvirt name, where they differ. */
const hypervNames: Readonly<Record<string, string>> = { synictimer: 'stimer', vendorid: 'vendor_id' };
const hypervKnown = new Set([
  'relaxed',
  'vapic',
  'spinlocks',
  'vpindex',
  'runtime',
  'synic',
  'synictimer',
  'reset',
  'vendorid',
  'frequencies',
  'reenlightenment',
  'tlbflush',
  'ipi',
  'evmcs',
]);

function onOff(on: boolean): 'on' | 'off' {
  return on ? 'on' : 'off';
}

/**
 * Features (upstream's `converter/compute`). A VMI without `features` gets ACPI as well: upstream's API server would have added
 * it, and without it a guest cannot be shut down.
 */
export function featuresElement(vmi: VirtualMachineInstance): XmlContent {
  const features = vmi.spec.domain.features ?? {};
  const architecture = architectureOf(vmi);
  const isAcpiUnsaid = features.acpi === undefined || features.acpi === null;
  const acpi = isAcpiUnsaid ? architecture.hasAcpi : isSwitchedOn(features.acpi);
  const isTdx = launchSecurityKind(vmi) === 'tdx';
  return {
    ...(acpi && { acpi: {} }),
    ...(isSwitchedOn(features.apic) && { apic: features.apic?.endOfInterrupt ? { '@eoi': 'on' } : {} }),
    ...hypervElement(features),
    ...kvmElement(vmi),
    ...(features.pvspinlock !== undefined && { pvspinlock: { '@state': onOff(isSwitchedOn(features.pvspinlock)) } }),
    // With TDX the keys are in the firmware, which is read-only.
    ...smmElement(features.smm, isSecureBoot(vmi) && !isTdx && architecture.isPc),
    // Its interrupts would come between a real-time guest and its work; a guest with TDX may not have it.
    ...((vmi.spec.domain.cpu?.realtime || isTdx) && { pmu: { '@state': 'off' } }),
    ...(architecture.isPc && vmi.spec.domain.features && { vmport: { '@state': 'off' } }),
  };
}

/** A guest with CPUs of its own may wait actively. */
function kvmElement(vmi: VirtualMachineInstance): XmlContent {
  const kvm = vmi.spec.domain.features?.kvm as { hidden?: boolean } | undefined;
  const isDedicated = architectureOf(vmi).isPc && vmi.spec.domain.cpu?.dedicatedCpuPlacement === true;
  if (!kvm && !isDedicated) return {};
  return {
    kvm: {
      ...(kvm && { hidden: { '@state': onOff(kvm.hidden === true) } }),
      ...(isDedicated && { 'hint-dedicated': { '@state': 'on' } }),
    },
  };
}

/** Secure Boot keeps its variables behind SMM; libvirt refuses it without. */
function smmElement(smm: unknown, secureBoot: boolean): XmlContent {
  if (secureBoot && smm && !isSwitchedOn(smm)) {
    throw invalid('spec.domain.features.smm', 'Secure Boot needs it: enable it, or set efi.secureBoot to false');
  }
  if (!smm && !secureBoot) return {};
  return { smm: { '@state': onOff(secureBoot || isSwitchedOn(smm)) } };
}

function hypervElement(features: Record<string, unknown>): XmlContent {
  if (isSwitchedOn(features.hypervPassthrough)) return { hyperv: { '@mode': 'passthrough' } };
  const hyperv = features.hyperv as Record<string, HypervState | undefined> | undefined;
  if (!hyperv) return {};
  const children: Record<string, XmlContent> = {};
  for (const [name, state] of Object.entries(hyperv)) {
    if (!state) continue;
    if (!hypervKnown.has(name)) throw invalid(`spec.domain.features.hyperv.${name}`, 'this feature is not known');
    children[hypervNames[name] ?? name] = hypervFeature(name, state);
  }
  return { hyperv: { '@mode': 'custom', ...children } };
}

function hypervFeature(name: string, state: HypervState): XmlContent {
  const on = isSwitchedOn(state);
  const element = { '@state': onOff(on) };
  if (!on) return element;
  if (name === 'spinlocks') return { ...element, '@retries': state.spinlocks ?? 4096 };
  if (name === 'vendorid') return { ...element, '@value': state.vendorid ?? '' };
  return {
    ...element,
    ...(state.direct && { direct: { '@state': onOff(isSwitchedOn(state.direct)) } }),
    ...(state.extended && { extended: { '@state': onOff(isSwitchedOn(state.extended)) } }),
  };
}

const timerNames: ReadonlyMap<string, string> = new Map([
  ['rtc', 'rtc'],
  ['pit', 'pit'],
  ['kvm', 'kvmclock'],
  ['hpet', 'hpet'],
  ['hyperv', 'hypervclock'],
]);

export function clockElement(vmi: VirtualMachineInstance): XmlContent | undefined {
  const { clock } = vmi.spec.domain;
  const frequency = tscNeed(vmi) && tscFrequencyOf(vmi);
  const tsc = frequency === undefined ? [] : [{ '@name': 'tsc', '@frequency': frequency }];
  if (!clock) return tsc.length > 0 ? { ...clockOffset({}), timer: tsc } : undefined;
  const timer = Object.entries(clock.timer ?? {}).flatMap(([name, settings]) => {
    if (!settings) return [];
    const timerName = timerNames.get(name);
    if (!timerName) throw invalid(`spec.domain.clock.timer.${name}`, 'this timer is not known');
    return [
      {
        '@name': timerName,
        '@tickpolicy': settings.tickPolicy || undefined,
        '@track': settings.track || undefined,
        '@present': settings.present === false ? 'no' : 'yes',
      },
    ];
  });
  return { ...clockOffset(clock), timer: [...timer, ...tsc] };
}

function clockOffset(clock: { utc?: { offsetSeconds?: number }; timezone?: string }): XmlContent {
  // As upstream, utc wins.
  if (!clock.utc && clock.timezone) return { '@offset': 'timezone', '@timezone': clock.timezone };
  if (!clock.utc) return { '@offset': 'utc' };
  const seconds = clock.utc.offsetSeconds;
  if (seconds === undefined) return { '@offset': 'utc', '@adjustment': 'reset' };
  return { '@offset': 'variable', '@basis': 'utc', '@adjustment': seconds };
}
