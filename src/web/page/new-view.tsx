import { batch, computed, signal } from '@preact/signals';
import { useLayoutEffect } from 'preact/hooks';
import type { KubeObject, VirtualMachine } from '../../api/index.ts';
import { cloneOf } from './clone-model.ts';
import { CodeEditor, Problem, type TextProblem } from './code-editor.tsx';
import { Failure, Nothing, Waiting } from './elements.tsx';
import { createClaim, createVm, getVm, instancetypes, namesAt, objectsAt } from './kube-calls.ts';
import { useOwned } from './owned.ts';
import { keyOfRow, type PageState } from './page-state.ts';
import { type NewRoute, vmHref } from './route.ts';
import { CallError, listImages } from './server-calls.ts';
import {
  claimToMake,
  fieldAt,
  formOf,
  instancetypeSize,
  newVm,
  type Offers,
  type VmForm,
  withForm,
} from './vm-form.ts';
import { VmFormView } from './vm-form-view.tsx';
import { freeName, messageOf } from './words.ts';
import { parseYaml, yamlText } from './yaml-text.ts';

const none: Offers = {
  images: [],
  namespaces: ['default'],
  claims: [],
  instancetypes: [],
  preferences: [],
  sizes: new Map(),
};

/** A VM that is being made: one object, seen as a form or as its YAML. */
export class NewMachine {
  readonly vm = signal<VirtualMachine>(newVm(undefined));
  /** Undefined: the form is shown. */
  readonly text = signal<string | undefined>(undefined);
  readonly offers = signal<Offers>(none);
  readonly remarks = signal<readonly string[]>([]);
  readonly problem = signal<TextProblem | undefined>(undefined);
  readonly state = signal<'asking' | 'ready' | 'sending'>('asking');
  /** Of a claim that is made with it. */
  readonly claimSize = signal('10Gi');
  readonly form = computed(() => formOf(this.vm.value));
  readonly claim = computed(() => claimToMake(this.form.value, this.claimSize.value, this.offers.value.claims));
  #namespace = '';
  #hasClosed = false;
  #beginAgain: () => Promise<void> = async () => undefined;

  /** What cannot be asked is said, and asked for by `askAgain`. */
  async begin(from: NewRoute['from'], taken: () => ReadonlySet<string>): Promise<void> {
    this.#beginAgain = () => this.begin(from, taken);
    this.problem.value = undefined;
    await this.#begin(from, taken()).catch((error: unknown) => {
      this.problem.value = { message: messageOf(error), fields: [] };
    });
  }

  async #begin(from: NewRoute['from'], taken: ReadonlySet<string>): Promise<void> {
    const [original, found] = await Promise.all([from && getVm(from), knownImages()]);
    const { images } = found;
    if (this.#hasClosed) return;
    if (from && !original) throw new CallError(404, `There is no virtual machine ${keyOfRow(from)}.`);
    batch(() => {
      const clone = original && cloneOf(original, freeNameOfClone(original, taken));
      const usual = images.find(({ boots }) => boots === 'disk') ?? images.find(({ boots }) => boots === 'kernel');
      this.offers.value = { ...none, ...found };
      this.vm.value = clone ? clone.vm : newVm(usual);
      this.remarks.value = clone?.remarks ?? [];
      this.state.value = 'ready';
    });
    await this.#askForNames();
  }

  /** What there is to choose from, after a while in which nothing could be asked. */
  async askAgain(): Promise<void> {
    if (this.state.value === 'asking') {
      if (this.problem.value) await this.#beginAgain();
      return;
    }
    const found = await knownImages();
    if (this.#hasClosed) return;
    const { imagesProblem: _old, ...known } = this.offers.value;
    this.offers.value = { ...known, ...found };
    this.#namespace = '';
    await this.#askForNames();
  }

  change(fields: Partial<VmForm>): void {
    batch(() => {
      this.vm.value = withForm(this.vm.value, fields, this.offers.value.images);
      this.problem.value = undefined;
    });
    void this.#askForNames();
  }

  showYaml(): void {
    this.problem.value = undefined;
    this.text.value = yamlText(this.vm.value);
  }

  /** Only when the text can be read. */
  showForm(): void {
    if (this.#readText()) this.text.value = undefined;
  }

  /** `isTrial`: nothing is made. Gives whether the API takes it. */
  async send(isTrial: boolean): Promise<boolean> {
    if (this.text.value !== undefined && !this.#readText()) return false;
    this.state.value = 'sending';
    this.problem.value = undefined;
    try {
      const { namespace } = this.form.value;
      if (!isLabel(namespace))
        throw new CallError(0, `${JSON.stringify(namespace)} cannot be the name of a namespace.`);
      const text = this.text.value ?? yamlText(this.vm.value);
      const claim = this.claim.value;
      // First, so that no claim is left of a VM that is refused.
      if (claim && !isTrial) await createVm(namespace, text, true);
      if (claim) await createClaim(namespace, claim, isTrial);
      await createVm(namespace, text, isTrial);
      return true;
    } catch (error) {
      this.problem.value = { message: messageOf(error), fields: error instanceof CallError ? error.fields : [] };
      return false;
    } finally {
      this.state.value = 'ready';
    }
  }

  close(): void {
    this.#hasClosed = true;
  }

  #readText(): boolean {
    const parsed = parseYaml(this.text.value ?? '');
    if (parsed.kind === 'problem') {
      this.problem.value = { message: parsed.message, line: parsed.line, fields: [] };
      return false;
    }
    const { metadata, spec } = parsed.value;
    if (typeof metadata !== 'object' || metadata === null || typeof spec !== 'object' || spec === null) {
      this.problem.value = { message: 'A virtual machine has `metadata` and `spec`.', line: 1, fields: [] };
      return false;
    }
    // As kubectl does it.
    const named = { namespace: 'default', ...metadata };
    this.vm.value = { ...parsed.value, metadata: named, spec } as unknown as VirtualMachine;
    return true;
  }

  /** Anew in another namespace. What cannot be had is not offered. */
  async #askForNames(): Promise<void> {
    const { namespace } = this.form.value;
    if (namespace === this.#namespace || !isLabel(namespace)) return;
    this.#namespace = namespace;
    const own = `${instancetypes}/namespaces/${namespace}`;
    const [namespaces, claims, ...found] = await Promise.all([
      namesAt('/api/v1/namespaces'),
      namesAt(`/api/v1/namespaces/${namespace}/persistentvolumeclaims`),
      kindsAt(`${instancetypes}/virtualmachineclusterinstancetypes`, 'VirtualMachineClusterInstancetype'),
      kindsAt(`${own}/virtualmachineinstancetypes`, 'VirtualMachineInstancetype'),
      kindsAt(`${instancetypes}/virtualmachineclusterpreferences`, 'VirtualMachineClusterPreference'),
      kindsAt(`${own}/virtualmachinepreferences`, 'VirtualMachinePreference'),
    ]);
    if (this.#hasClosed || namespace !== this.#namespace) return;
    const [clusterTypes = [], ownTypes = [], clusterPreferences = [], ownPreferences = []] = found;
    const offered = [...clusterTypes, ...ownTypes];
    const sizes = new Map(offered.map(({ value, object }) => [value, instancetypeSize(object)]));
    const names = offered.map(({ value }) => value);
    const preferences = [...clusterPreferences, ...ownPreferences].map(({ value }) => value);
    this.offers.value = { ...this.offers.value, namespaces, claims, instancetypes: names, preferences, sizes };
  }
}

async function knownImages(): Promise<Pick<Offers, 'images' | 'imagesProblem'>> {
  try {
    return { images: await listImages(AbortSignal.timeout(10_000)) };
  } catch (error) {
    return { images: [], imagesProblem: messageOf(error) };
  }
}

function isLabel(text: string): boolean {
  return /^[a-z0-9][-a-z0-9]{0,62}$/.test(text);
}

interface Offered {
  /** `Kind/name` */
  readonly value: string;
  readonly object: KubeObject;
}

async function kindsAt(path: string, kind: string): Promise<readonly Offered[]> {
  return (await objectsAt(path)).map((object) => ({ value: `${kind}/${object.metadata.name}`, object }));
}

function freeNameOfClone({ metadata: { namespace = '', name } }: KubeObject, taken: ReadonlySet<string>): string {
  return freeName(`${name}-clone`, (wanted) => taken.has(`${namespace}/${wanted}`));
}

interface NewViewProps {
  readonly state: PageState;
  readonly route: NewRoute;
}

export function NewView({ state, route }: NewViewProps) {
  const machine = useOwned(() => new NewMachine());
  useLayoutEffect(() => {
    void machine.begin(route.from, () => new Set(state.rows.value.keys()));
  }, [machine, route, state]);
  const isCurrent = state.isCurrent.value;
  useLayoutEffect(() => {
    if (isCurrent) void machine.askAgain();
  }, [machine, isCurrent]);
  const title = route.from ? `Clone of ${route.from.name}` : 'New virtual machine';
  return (
    <section class="new-view">
      <div class="view-head">
        <h1 tabindex={-1}>{title}</h1>
      </div>
      {state.isLookOnly.value ? (
        <Nothing>You may look at machines, and make none.</Nothing>
      ) : (
        <NewBody state={state} machine={machine} />
      )}
    </section>
  );
}

function NewBody({ state, machine }: { readonly state: PageState; readonly machine: NewMachine }) {
  const { value: progress } = machine.state;
  const problem = machine.problem.value;
  if (progress === 'asking') return problem ? <Failure>{problem.message}</Failure> : <Waiting>One moment…</Waiting>;
  const cannotSend = progress !== 'ready' || !state.isCurrent.value;
  const create = async () => {
    if (!(await machine.send(false))) {
      toProblem();
      return;
    }
    const { namespace, name } = machine.form.value;
    state.say(`${name} is made.`);
    location.hash = vmHref({ namespace, name }, 'overview');
  };
  const check = async () => {
    if (await machine.send(true)) state.say('The API would take it.');
  };
  const submit = (event: Event) => {
    event.preventDefault();
    if (machine.state.value === 'ready') void create();
  };
  return (
    <form class="new-form" onSubmit={submit} novalidate>
      <Remarks machine={machine} />
      <Sides machine={machine} />
      <Machine machine={machine} />
      <div class="buttons">
        <a class="button" href="#/">
          Cancel
        </a>
        <button type="button" disabled={cannotSend} onClick={() => void check()}>
          Check
        </button>
        <button type="submit" class="primary" disabled={cannotSend}>
          {progress === 'sending' ? 'Making it…' : 'Create'}
        </button>
      </div>
    </form>
  );
}

/** What is wrong may be far above the button. */
function toProblem(): void {
  requestAnimationFrame(() => {
    const found = document.querySelector<HTMLElement>('.new-form [aria-invalid=true], .new-form .problem');
    found?.focus();
    found?.scrollIntoView({ block: 'center' });
  });
}

function Remarks({ machine }: { readonly machine: NewMachine }) {
  const remarks = machine.remarks.value;
  if (remarks.length === 0) return null;
  return (
    <ul class="notes remarks">
      {remarks.map((remark) => (
        <li key={remark}>{remark}</li>
      ))}
    </ul>
  );
}

/** The same object in two forms. */
function Sides({ machine }: { readonly machine: NewMachine }) {
  const isYaml = machine.text.value !== undefined;
  return (
    <fieldset class="sides" aria-label="Seen as">
      <button type="button" aria-pressed={!isYaml} onClick={() => machine.showForm()}>
        Form
      </button>
      <button type="button" aria-pressed={isYaml} onClick={() => !isYaml && machine.showYaml()}>
        YAML
      </button>
    </fieldset>
  );
}

function Machine({ machine }: { readonly machine: NewMachine }) {
  const { text, problem, form, offers, claim, claimSize } = machine;
  const isYaml = text.value !== undefined;
  return (
    <>
      {isYaml ? (
        <CodeEditor
          label="YAML of the virtual machine"
          text={text.value ?? ''}
          isReadOnly={false}
          problem={problem.value}
          onChange={(changed) => {
            text.value = changed;
          }}
        />
      ) : (
        <>
          {problem.value && <Problem problem={elsewhere(problem.value)} text="" onGo={() => undefined} />}
          <VmFormView
            form={form.value}
            offers={offers.value}
            problems={problem.value?.fields ?? []}
            claimSize={claimSize.value}
            makesClaim={claim.value !== undefined}
            onChange={(fields) => machine.change(fields)}
            onClaimSize={(size) => {
              claimSize.value = size;
            }}
          />
        </>
      )}
      {claim.value && (
        <p class="hint">
          With it the claim <code>{claim.value.metadata.name}</code> of {claimSize.value} is made, and stays when it is
          deleted.
        </p>
      )}
    </>
  );
}

/** What no field of the form shows; the message repeats what each field says. */
export function elsewhere({ message, fields }: TextProblem): TextProblem {
  const others = fields.filter(({ field }) => fieldAt(field) === undefined);
  const isShown = fields.length > 0 && others.length === 0;
  return { message: isShown ? 'The API refuses what is marked below.' : message, fields: others };
}
