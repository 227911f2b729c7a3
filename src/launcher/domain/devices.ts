import { isHighPerformance, keepsTpm, type VirtualMachineInstance, vhostmdChannel } from '../../api/index.ts';
import { architectureOf } from './architecture.ts';
import type { ConverterContext } from './context.ts';
import { type CpuShape, cpuShape } from './cpu.ts';
import { type DiskPlan, diskElement, diskSettings, planDisks } from './disk-devices.ts';
import { invalid, unsupported } from './errors.ts';
import { filesystemElements } from './filesystems.ts';
import { isEfi } from './firmware.ts';
import { hostDeviceElements } from './host-devices.ts';
import { interfaceElements } from './interfaces.ts';
import { type IoThreadPlan, planIoThreads } from './io-threads.ts';
import { fileNamePart, userAlias } from './names.ts';
import { serialSocket, socketPath, vncSocket } from './paths.ts';
import { rootPortElements } from './pci-ports.ts';
import { isPlacedOnRootComplex, placedOnRootComplex } from './root-complex.ts';
import type { VirtioStyle } from './virtio.ts';
import { isHotplugged, statusOf } from './volumes.ts';
import type { XmlContent } from './xml.ts';

const guestAgentChannel = 'org.qemu.guest_agent.0';
const clientPassthroughSlots = 4;
const defaultBalloonPeriodSeconds = 10;
const freePageReportingAnnotation = 'kubevirt.io/free-page-reporting-disabled';

/** `devices`, and the I/O threads that its disks use. */
export function deviceElements(
  vmi: VirtualMachineInstance,
  context: ConverterContext,
): { devices: XmlContent; ioThreads: IoThreadPlan } {
  const devices = vmi.spec.domain.devices ?? {};
  const cpu: CpuShape = cpuShape(vmi);
  const plans = planDisks(vmi).filter((plan) => isAttachable(vmi, plan, context));
  const ioThreads = planIoThreads(vmi, plans, cpu.count);
  const disks = diskSettings(vmi, context, ioThreads);
  const { virtio } = disks;
  const inputs = inputElements(vmi);
  const hostdev = hostDeviceElements(vmi, context);
  const hasUsb = [...inputs, ...hostdev].some((one) => one['@bus'] === 'usb' || one['@type'] === 'usb');
  const controllers = controllerElements(vmi, { plans, hasUsb, virtio });
  const all: XmlContent = {
    disk: plans.map((plan) => diskElement(plan, disks)),
    controller: controllers,
    filesystem: filesystemElements(vmi, context),
    interface: interfaceElements(vmi, context),
    hostdev,
    ...serialElements(vmi, context),
    channel: channelElements(vmi, context),
    input: inputs,
    ...tpmElements(vmi),
    ...graphicsElements(vmi, context),
    ...soundElements(vmi),
    redirdev: redirElements(vmi, context),
    ...watchdogElements(vmi),
    memballoon: balloonElement(vmi, context, virtio),
    ...(devices.rng && {
      rng: {
        '@model': virtio.model,
        backend: { '@model': 'random', '#text': '/dev/urandom' },
        ...driverElement(virtio),
      },
    }),
    panic: (devices.panicDevices ?? []).map(({ model }) => ({ '@model': model })),
    ...vsockElements(vmi),
  };
  if (isPlacedOnRootComplex(vmi)) return { ioThreads, devices: placedOnRootComplex(all) };
  const controller = [...controllers, ...rootPortElements(vmi, all)];
  return { ioThreads, devices: { ...all, controller } };
}

/** libvirt chooses the socket of the guest agent's; the agent of the node connects to that of the figures. */
function channelElements(vmi: VirtualMachineInstance, { paths }: ConverterContext): XmlContent[] {
  const channel = (name: string, source?: XmlContent): XmlContent => ({
    '@type': 'unix',
    ...(source && { source }),
    target: { '@type': 'virtio', '@name': name },
  });
  const { directory, socket, port } = vhostmdChannel;
  const bound = { '@mode': 'bind', '@path': socketPath(`${paths.privateDir}/${directory}/${socket}`) };
  return [channel(guestAgentChannel), ...(vmi.spec.domain.devices?.downwardMetrics ? [channel(port, bound)] : [])];
}

/** A volume that is being plugged in may not have its file yet: the next sync attaches it. */
function isAttachable(vmi: VirtualMachineInstance, { entry }: DiskPlan, context: ConverterContext): boolean {
  const { volume } = entry;
  return !volume || context.disks.has(volume.name) || !isHotplugged(volume, statusOf(vmi, volume.name));
}

interface ControllerInput {
  readonly plans: readonly DiskPlan[];
  /** Among inputs and devices of the machine. */
  readonly hasUsb: boolean;
  readonly virtio: VirtioStyle;
}

function controllerElements(vmi: VirtualMachineInstance, { plans, hasUsb, virtio }: ControllerInput): XmlContent[] {
  const devices = vmi.spec.domain.devices ?? {};
  const { usb, isPc } = architectureOf(vmi);
  const isUsed = hasUsb || plans.some(({ bus }) => bus === 'usb') || Boolean(devices.clientPassthrough);
  const hasBus = usb === 'always' || (usb === 'when used' && isUsed);
  const scsi = devices.disableHotplug !== true || plans.some(({ bus }) => bus === 'scsi');
  const controllers: XmlContent[] = [{ '@type': 'usb', '@index': 0, '@model': hasBus ? 'qemu-xhci' : 'none' }];
  if (scsi) controllers.push({ '@type': 'scsi', '@index': 0, '@model': virtio.scsiModel, ...driverElement(virtio) });
  controllers.push({ '@type': 'virtio-serial', '@index': 0, '@model': virtio.model, ...driverElement(virtio) });
  if (isPc && vmi.metadata.annotations?.['kubevirt.io/disablePCIHole64'] === 'true') {
    controllers.push({
      '@type': 'pci',
      '@index': 0,
      '@model': 'pcie-root',
      pcihole64: { '@unit': 'KiB', '#text': 0 },
    });
  }
  return controllers;
}

function serialElements(vmi: VirtualMachineInstance, context: ConverterContext): XmlContent {
  const devices = vmi.spec.domain.devices ?? {};
  if (devices.autoattachSerialConsole === false) return {};
  const path = serialSocket(context.paths, uidOf(vmi));
  const logged = devices.logSerialConsole ?? context.options?.clusterConfig?.serialConsoleLogDisabled !== true;
  return {
    serial: {
      '@type': 'unix',
      source: { '@mode': 'bind', '@path': path },
      ...(logged && { log: { '@file': `${path}-log`, '@append': 'on' } }),
      target: { '@port': 0 },
    },
    console: { '@type': 'pty', target: { '@type': 'serial', '@port': 0 } },
  };
}

function uidOf(vmi: VirtualMachineInstance): string {
  return fileNamePart('metadata.uid', vmi.metadata.uid);
}

function graphicsElements(vmi: VirtualMachineInstance, context: ConverterContext): XmlContent {
  const devices = vmi.spec.domain.devices ?? {};
  if (devices.autoattachGraphicsDevice === false) {
    if (devices.video?.type) throw invalid('spec.domain.devices.video', 'needs autoattachGraphicsDevice');
    return {};
  }
  const listen = { '@type': 'socket', '@socket': vncSocket(context.paths, uidOf(vmi)) };
  return { graphics: { '@type': 'vnc', listen }, video: { model: videoModel(vmi, context) } };
}

function videoModel(vmi: VirtualMachineInstance, context: ConverterContext): XmlContent {
  const type = vmi.spec.domain.devices?.video?.type;
  if (type) return { '@type': type, '@vram': 16384, '@heads': 1 };
  const isBochs = architectureOf(vmi).isPc && isEfi(vmi) && context.options?.clusterConfig?.bochsDisplayForEfiGuests;
  if (isBochs) return { '@type': 'bochs', '@heads': 1 };
  const { video } = architectureOf(vmi);
  return { '@type': video, '@vram': video === 'vga' ? 16384 : undefined, '@heads': 1 };
}

function inputElements(vmi: VirtualMachineInstance): XmlContent[] {
  const { inputs = [], autoattachInputDevice } = vmi.spec.domain.devices ?? {};
  const added = autoattachInputDevice && inputs.length === 0 ? [{ name: 'default-0', type: 'tablet', bus: 'usb' }] : [];
  const asked = [...inputs, ...added].map(({ name, type, bus }) => {
    const field = `spec.domain.devices.inputs[${name}]`;
    if (type !== 'tablet') throw unsupported(`${field}.type ${type}`, 'use "tablet"');
    if (bus && bus !== 'usb' && bus !== 'virtio') throw invalid(`${field}.bus`, `${bus} is none of usb, virtio`);
    return {
      '@type': type,
      '@bus': bus || 'usb',
      '@model': bus === 'virtio' ? 'virtio' : undefined,
      alias: userAlias('spec.domain.devices.inputs[]', name),
    };
  });
  return [...asked, ...ownInputs(vmi, asked.length > 0)];
}

/** A PC has keyboard and mouse of its own, by which a screen is used; others are given theirs. */
function ownInputs(vmi: VirtualMachineInstance, hasTablet: boolean): XmlContent[] {
  const { usb, isPc } = architectureOf(vmi);
  if (isPc || vmi.spec.domain.devices?.autoattachGraphicsDevice === false) return [];
  if (usb === 'never') return [{ '@type': 'keyboard', '@bus': 'virtio' }];
  const tablet = hasTablet ? [] : [{ '@type': 'tablet', '@bus': 'usb' }];
  return [...tablet, { '@type': 'keyboard', '@bus': 'usb' }];
}

function balloonElement(vmi: VirtualMachineInstance, context: ConverterContext, virtio: VirtioStyle): XmlContent {
  if (vmi.spec.domain.devices?.autoattachMemBalloon === false) return { '@model': 'none' };
  const period = context.options?.memBalloonStatsPeriodSeconds ?? defaultBalloonPeriodSeconds;
  // The guest would be kept from its work by giving pages back that others shall not have anyway.
  const reporting =
    !isHighPerformance(vmi) &&
    context.options?.clusterConfig?.freePageReportingDisabled !== true &&
    vmi.metadata.annotations?.[freePageReportingAnnotation] !== 'true';
  return {
    '@model': virtio.model,
    '@freePageReporting': reporting ? 'on' : 'off',
    ...(period > 0 && { stats: { '@period': period } }),
    ...driverElement(virtio),
  };
}

function driverElement({ driver }: VirtioStyle): XmlContent {
  return Object.keys(driver).length > 0 ? { driver } : {};
}

const watchdogActions = ['poweroff', 'reset', 'shutdown'];

function watchdogElements(vmi: VirtualMachineInstance): XmlContent {
  const watchdog = vmi.spec.domain.devices?.watchdog;
  if (!watchdog) return {};
  const field = `spec.domain.devices.watchdog`;
  const { name, watchdog: model } = architectureOf(vmi);
  if (!model) throw unsupported(field, `guests of ${name} have none: remove it`);
  const other = model === 'i6300esb' ? 'diag288' : 'i6300esb';
  if (watchdog[other]) throw unsupported(`${field}.${other}`, `guests of ${name} have none: use ${model}`);
  const action = watchdog[model]?.action || 'reset';
  if (!watchdogActions.includes(action)) {
    throw invalid(`${field}.${model}.action`, `${action} is none of ${watchdogActions.join(', ')}`);
  }
  return { watchdog: { '@model': model, '@action': action, alias: userAlias(field, watchdog.name) } };
}

function tpmElements(vmi: VirtualMachineInstance): XmlContent {
  const tpm = vmi.spec.domain.devices?.tpm;
  if (!tpm || tpm.enabled === false) return {};
  const backend = { '@type': 'emulator', '@version': '2.0' };
  // Each as upstream has it: a guest that finds another device in its place takes it for another TPM.
  if (!keepsTpm(vmi.spec.domain)) return { tpm: { '@model': 'tpm-tis', backend } };
  return { tpm: { '@model': 'tpm-crb', backend: { ...backend, '@persistent_state': 'yes' } } };
}

function soundElements(vmi: VirtualMachineInstance): XmlContent {
  const sound = vmi.spec.domain.devices?.sound;
  if (!sound) return {};
  const model = sound.model || 'ich9';
  if (model !== 'ich9' && model !== 'ac97')
    throw invalid('spec.domain.devices.sound.model', `${model} is none of ich9, ac97`);
  return { sound: { '@model': model, alias: userAlias('spec.domain.devices.sound', sound.name) } };
}

/** Slots for USB devices of the one who looks at the screen. */
function redirElements(vmi: VirtualMachineInstance, context: ConverterContext): XmlContent[] {
  if (!vmi.spec.domain.devices?.clientPassthrough) return [];
  return Array.from({ length: clientPassthroughSlots }, (_, slot) => ({
    '@type': 'unix',
    '@bus': 'usb',
    source: {
      '@mode': 'bind',
      '@path': socketPath(`${context.paths.privateDir}/${uidOf(vmi)}/virt-usbredir-${slot}`),
    },
  }));
}

function vsockElements(vmi: VirtualMachineInstance): XmlContent {
  if (!vmi.spec.domain.devices?.autoattachVSOCK) return {};
  const cid = vmi.status?.VSOCKCID;
  if (typeof cid !== 'number') {
    throw invalid('spec.domain.devices.autoattachVSOCK', 'the controller has not set status.VSOCKCID yet');
  }
  return { vsock: { '@model': 'virtio-non-transitional', cid: { '@auto': 'no', '@address': cid } } };
}
