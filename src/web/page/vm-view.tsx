import { useLayoutEffect, useRef } from 'preact/hooks';
import type { VmRow } from '../rows.ts';
import { ActionButtons } from './action-buttons.tsx';
import { ConsolePanel } from './console-panel.tsx';
import { DevicesPanel } from './devices-panel.tsx';
import { Badge, icon } from './elements.tsx';
import { EventsPanel } from './events-panel.tsx';
import { ExplainPanel } from './explain-panel.tsx';
import { lazily } from './lazy.tsx';
import { LogsPanel } from './logs-panel.tsx';
import { OverviewPanel } from './overview-panel.tsx';
import { keyOfRow, type PageState } from './page-state.ts';
import { type VmRoute, type VmTab, vmHref, vmTabLabels, vmTabs } from './route.ts';
import { statusOf, toneOf } from './row-model.ts';
import { ScreenPanel } from './screen-panel.tsx';
import { SnapshotsPanel } from './snapshots-panel.tsx';
import { TimelinePanel } from './timeline-panel.tsx';
import { Trouble } from './trouble.tsx';

/** With a parser of YAML, which nothing else needs. */
const YamlPanel = lazily(() => import('./yaml-panel.tsx').then(({ YamlPanel: found }) => found));

/** Of the Kubernetes API: not where the page has none. */
const ofApi: ReadonlySet<VmTab> = new Set(['devices', 'snapshots', 'events', 'logs', 'yaml']);

interface VmViewProps {
  readonly state: PageState;
  readonly route: VmRoute;
}

/** One VM: what it is, what can be done, and one of its sides. */
export function VmView({ state, route }: VmViewProps) {
  const { namespace, name, tab } = route;
  const tabs = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    tabs.current?.querySelector(`[data-tab=${tab}]`)?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, [tab]);
  const row = state.row(keyOfRow(route));
  const status = row ? statusOf(row) : state.isLoaded.value ? 'Not here' : '';
  return (
    <section class={`vm-view is-${tab}`} data-old={state.isCurrent.value ? undefined : ''}>
      <div class="view-head">
        <a class="button plain" href="#/" aria-label="All virtual machines">
          {icon('back')}
        </a>
        <h1 tabindex={-1}>
          {name} <span class="namespace">{namespace}</span>
        </h1>
        <Badge text={status} tone={row ? toneOf(row) : 'off'} />
        {row && <ActionButtons class="vm-buttons" state={state} row={row} />}
      </div>
      {row && toneOf(row) === 'bad' && <Trouble row={row} />}
      <nav class="tabs" ref={tabs} aria-label={`Sides of ${name}`}>
        {vmTabs
          .filter((known) => isServed(state, known))
          .map((known) => (
            <a
              key={known}
              data-tab={known}
              href={vmHref(route, known)}
              aria-current={known === tab ? 'page' : undefined}>
              {icon(known)}
              {vmTabLabels[known]}
            </a>
          ))}
      </nav>
      <Panel state={state} route={route} row={row} />
    </section>
  );
}

function isServed({ hasApi, hasTimeline }: PageState, tab: VmTab): boolean {
  return tab === 'timeline' ? hasTimeline.value : hasApi.value || !ofApi.has(tab);
}

function Panel({ state, route, row }: VmViewProps & { readonly row: VmRow | undefined }) {
  switch (route.tab) {
    case 'overview':
      return <OverviewPanel state={state} vm={route} row={row} />;
    case 'console':
      return <ConsolePanel state={state} vm={route} row={row} />;
    case 'screen':
      return <ScreenPanel state={state} vm={route} row={row} />;
    case 'devices':
      return <DevicesPanel vm={route} row={row} />;
    case 'snapshots':
      return <SnapshotsPanel state={state} vm={route} row={row} />;
    case 'events':
      return <EventsPanel vm={route} row={row} />;
    case 'logs':
      return <LogsPanel vm={route} row={row} />;
    case 'yaml':
      return <YamlPanel state={state} vm={route} />;
    case 'timeline':
      return <TimelinePanel key={row?.vmi?.uid} vm={route} row={row} />;
    case 'why':
      return <ExplainPanel vm={route} row={row} />;
  }
}
