import { useLayoutEffect, useRef } from 'preact/hooks';
import { AgentView } from './agent-view.tsx';
import { Dialogs } from './dialogs.tsx';
import { Guard, Nothing } from './elements.tsx';
import { ImagesView } from './images-view.tsx';
import { lazily } from './lazy.tsx';
import { ListView } from './list-view.tsx';
import { keyOfRow, type Link, type PageState } from './page-state.ts';
import { type PageRoute, titleOf } from './route.ts';
import { showHelp } from './shortcuts.ts';
import { ThemeButton } from './theme-button.tsx';
import { TypesView } from './types-view.tsx';
import { VmView } from './vm-view.tsx';
import { capitalised, messageOf } from './words.ts';

/** With a parser of YAML, which nothing else needs. */
const NewView = lazily(() => import('./new-view.tsx').then(({ NewView: found }) => found));

interface PageProps {
  readonly state: PageState;
}

/** Head, what keeps the page from showing what is, one view, messages, dialogs. */
export function Page({ state }: PageProps) {
  const main = useRef<HTMLElement>(null);
  const route = state.route.value;
  useFocusOnArrival(main, route);
  const skip = (event: Event) => {
    event.preventDefault();
    main.current?.focus();
  };
  return (
    <>
      {/* biome-ignore lint/a11y/useValidAnchor: the place it leads to is in this page, whose address is another thing */}
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Head state={state} />
      <Banner link={state.link.value} notice={state.notice.value} />
      <main id="main" tabindex={-1} ref={main}>
        {route && (
          <Guard instead={(error) => <Nothing>This cannot be shown: {messageOf(error)}</Nothing>}>
            <View state={state} route={route} />
          </Guard>
        )}
      </main>
      <Messages state={state} />
      <Dialogs state={state} />
    </>
  );
}

/** Not of the first view: that is where a browser begins to read anyway. */
function useFocusOnArrival(main: { readonly current: HTMLElement | null }, route: PageRoute | undefined): void {
  const before = useRef<PageRoute>(undefined);
  useLayoutEffect(() => {
    if (!route) return;
    const isFirst = before.current === undefined;
    before.current = route;
    document.title = route.view === 'list' ? titleOf(route) : `${titleOf(route)} · Virtual machines`;
    scrollTo(0, 0);
    // A terminal takes the focus by itself, when it is there.
    const isTerminal = route.view === 'vm' && route.tab === 'console';
    if (!isFirst && !isTerminal) main.current?.querySelector('h1')?.focus();
  }, [main, route]);
}

function View({ state, route }: PageProps & { readonly route: PageRoute }) {
  switch (route.view) {
    case 'list':
      return <ListView state={state} />;
    case 'images':
      return <ImagesView state={state} />;
    case 'types':
      return <TypesView state={state} />;
    case 'new':
      return <NewView key={route.from ? keyOfRow(route.from) : ''} state={state} route={route} />;
    case 'agent':
      return <AgentView key={route.node} state={state} route={route} />;
    case 'vm':
      return <VmView key={keyOfRow(route)} state={state} route={route} />;
  }
}

function Head({ state }: PageProps) {
  const node = state.node.value;
  const view = state.route.value?.view;
  return (
    <header>
      <span class="node" title={node === '' ? undefined : nodeTitle(state)}>
        {state.hasNodes.value ? `${state.nodes.value.length} nodes` : node}
      </span>
      <span class="link" role="status">
        {state.isCurrent.value && (state.isLookOnly.value ? 'live, to look only' : 'live')}
      </span>
      <nav class="places" aria-label="Places">
        <a href="#/" aria-current={view === 'list' ? 'page' : undefined}>
          Machines
        </a>
        {state.hasImages.value && (
          <a href="#/images" aria-current={view === 'images' ? 'page' : undefined}>
            Images
          </a>
        )}
        {state.hasApi.value && (
          <a href="#/types" aria-current={view === 'types' ? 'page' : undefined}>
            Types
          </a>
        )}
        <a href="#/agent" aria-current={view === 'agent' ? 'page' : undefined}>
          Agent
        </a>
      </nav>
      <span class="space" />
      <ThemeButton />
      <button type="button" class="plain" aria-label="Keys" title="Keys (?)" onClick={() => showHelp(state)}>
        ?
      </button>
    </header>
  );
}

function nodeTitle({ node, nodes, hasNodes }: PageState): string {
  return hasNodes.value ? nodes.value.map(({ name }) => name).join(', ') : `Node ${node.value}`;
}

function Banner({ link, notice }: { readonly link: Link; readonly notice: string | undefined }) {
  const text = bannerText(link, notice);
  return (
    <div class="banner" role="alert" hidden={text === ''}>
      <p>{text}</p>
    </div>
  );
}

function bannerText(link: Link, notice: string | undefined): string {
  switch (link.kind) {
    case 'denied':
      return `${capitalised(link.reason)}.`;
    case 'lost':
      return 'The server does not answer: reconnecting. What you see is what was known last.';
    case 'live':
      if (link.problem !== undefined) return `What you see may be old: ${link.problem}.`;
      return notice === undefined ? '' : `${capitalised(notice)}.`;
    case 'connecting':
      return '';
  }
}

/** Said by screen readers. */
function Messages({ state }: PageProps) {
  const message = state.message.value;
  return (
    <div class="messages">
      <div role="status">
        {message && (
          <p key={message.id} class="message">
            {message.text}
          </p>
        )}
      </div>
      <div role="alert">
        {state.failures.value.map((failure) => (
          <p key={failure.id} class="message is-bad">
            <span>{failure.text}</span>
            <button type="button" class="plain" onClick={() => state.putAway(failure)}>
              Close
            </button>
          </p>
        ))}
      </div>
    </div>
  );
}
