import { batch, signal } from '@preact/signals';
import { useLayoutEffect } from 'preact/hooks';
import type { VirtualMachine, VirtualMachineInstance } from '../../api/index.ts';
import { CodeEditor, type TextProblem } from './code-editor.tsx';
import { Nothing } from './elements.tsx';
import { getVm, getVmi, replaceVm } from './kube-calls.ts';
import { useOwned } from './owned.ts';
import type { PageState } from './page-state.ts';
import { CallError, type Vm } from './server-calls.ts';
import { messageOf } from './words.ts';
import { yamlText } from './yaml-text.ts';

type Kind = 'vm' | 'vmi';

/** The text of one object, as it was read and as it is now. */
class ObjectText {
  readonly kind = signal<Kind>('vm');
  readonly text = signal<string | undefined>(undefined);
  readonly read = signal('');
  readonly problem = signal<TextProblem | undefined>(undefined);
  readonly isBusy = signal(false);
  readonly #vm: Vm;
  readonly #ending = new AbortController();

  constructor(vm: Vm) {
    this.#vm = vm;
  }

  get isChanged(): boolean {
    return this.text.value !== undefined && this.text.value !== this.read.value;
  }

  /** What was changed and not saved is given up. An instance without a VM is shown in its place. */
  async load(kind = this.kind.value): Promise<void> {
    await this.#busy(async () => {
      const { signal: ending } = this.#ending;
      const vm = kind === 'vm' ? await getVm(this.#vm, ending) : undefined;
      const found = vm ?? (await getVmi(this.#vm, ending));
      this.#show(vm ? 'vm' : 'vmi', found);
    });
  }

  /** `isTrial`: nothing is written. Gives whether the API takes it. */
  async save(isTrial: boolean): Promise<boolean> {
    return this.#busy(async () => {
      const saved = await replaceVm(this.#vm, this.text.value ?? '', isTrial);
      if (!isTrial) this.#show('vm', saved);
    });
  }

  close(): void {
    this.#ending.abort();
  }

  #show(kind: Kind, object: VirtualMachine | VirtualMachineInstance | undefined): void {
    batch(() => {
      this.kind.value = kind;
      this.read.value = object ? yamlText(shownOf(object)) : '';
      this.text.value = this.read.value;
    });
  }

  async #busy(work: () => Promise<void>): Promise<boolean> {
    this.isBusy.value = true;
    this.problem.value = undefined;
    try {
      await work();
      return true;
    } catch (error) {
      const fields = error instanceof CallError ? error.fields : [];
      if (!this.#ending.signal.aborted) this.problem.value = { message: messageOf(error), fields };
      return false;
    } finally {
      this.isBusy.value = false;
    }
  }
}

/** Without what is KubeVirt's own to write, and the notes of who wrote what. */
function shownOf(object: VirtualMachine | VirtualMachineInstance): object {
  const { managedFields: _notes, ...metadata } = object.metadata as VirtualMachine['metadata'] & {
    managedFields?: unknown;
  };
  if (object.kind === 'VirtualMachineInstance') return { ...object, metadata };
  const { status: _status, ...rest } = object;
  return { ...rest, metadata };
}

/** A VM as its YAML, to be read and changed; its instance, to be read. */
export function YamlPanel({ state, vm }: { readonly state: PageState; readonly vm: Vm }) {
  const object = useOwned(() => new ObjectText(vm));
  useLayoutEffect(() => void object.load(), [object]);
  const text = object.text.value;
  const problem = object.problem.value;
  if (text === undefined) return <Nothing>{problem ? problem.message : 'Asking…'}</Nothing>;
  if (text === '' && object.read.value === '') return <Nothing>There is no such machine.</Nothing>;
  const isVm = object.kind.value === 'vm';
  const mayWrite = isVm && state.rights.value.canWrite;
  return (
    <div class="yaml">
      <Bar state={state} vm={vm} object={object} mayWrite={mayWrite} />
      <CodeEditor
        label={`YAML of ${vm.name}`}
        text={text}
        isReadOnly={!mayWrite}
        problem={problem}
        onChange={(changed) => {
          object.text.value = changed;
        }}
      />
    </div>
  );
}

interface BarProps {
  readonly state: PageState;
  readonly vm: Vm;
  readonly object: ObjectText;
  readonly mayWrite: boolean;
}

function Bar({ state, vm, object, mayWrite }: BarProps) {
  const isIdle = !object.isBusy.value;
  const canSend = isIdle && object.isChanged;
  const send = async (isTrial: boolean) => {
    if (await object.save(isTrial)) state.say(isTrial ? 'The API would take it.' : `${vm.name} is saved.`);
  };
  return (
    <div class="bar">
      <label>
        Object
        <select
          value={object.kind.value}
          onChange={({ currentTarget }) => void object.load(currentTarget.value === 'vmi' ? 'vmi' : 'vm')}>
          <option value="vm">VirtualMachine</option>
          <option value="vmi">Instance that runs</option>
        </select>
      </label>
      {mayWrite && (
        <>
          <button type="button" class="primary" disabled={!canSend} onClick={() => void send(false)}>
            Save
          </button>
          <button type="button" disabled={!canSend} onClick={() => void send(true)}>
            Check
          </button>
        </>
      )}
      <button type="button" disabled={!isIdle} onClick={() => void object.load()}>
        {object.isChanged ? 'Give up changes' : 'Read again'}
      </button>
      {object.isChanged && <p class="hint">changed, not saved</p>}
    </div>
  );
}
