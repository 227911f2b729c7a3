import { Gauge, type Registry } from 'prom-client';

/** What the program is now. */
export interface ProgramFigures {
  /** It leads, its caches are read and its controllers work. */
  readonly isLeading: () => boolean;
  /** It could take the lead, or has it. */
  readonly isReady: () => boolean;
  readonly controller: () => {
    /** By the plural of their resource. */
    readonly caches: readonly { readonly resource: string; readonly objects: number }[];
    readonly quarantined: number;
    readonly events: { readonly waiting: number; readonly dropped: number };
  };
  /** When the certificate in use expires; undefined: there is none. */
  readonly certificateExpires: () => Date | undefined;
}

type Value = readonly [labels: Readonly<Record<string, string>>, value: number];

export function addStatusMetrics(registry: Registry, figures: ProgramFigures): void {
  const gauge = (end: string, help: string, labelNames: string[], read: () => readonly Value[]) =>
    new Gauge({
      ...{ name: `kubevirt_virt_controller_${end}`, help, labelNames, registers: [registry] },
      collect() {
        this.reset();
        for (const [labels, value] of read()) this.set(labels, value);
      },
    });
  const one = (end: string, help: string, read: () => number) => gauge(end, help, [], () => [[{}, read()]]);
  one('leading_status', 'Indication for an operating virt-controller.', () => Number(figures.isLeading()));
  const ready = 'Indication for a virt-controller that is ready to take the lead.';
  one('ready_status', ready, () => Number(figures.isReady()));
  gauge('cached_objects', 'Objects in the caches.', ['resource'], () =>
    figures.controller().caches.map(({ resource, objects }): Value => [{ resource }, objects]),
  );
  one(
    'quarantined_objects',
    'Objects that fail over and over and are tried once a minute.',
    () => figures.controller().quarantined,
  );
  one('events_waiting', 'Events that wait to be written.', () => figures.controller().events.waiting);
  one('events_dropped', 'Events that were not written, since the start.', () => figures.controller().events.dropped);
  gauge('certificate_expiration_timestamp_seconds', 'When the certificate in use expires.', [], () => {
    const expires = figures.certificateExpires();
    return expires ? [[{}, expires.getTime() / 1000]] : [];
  });
}
