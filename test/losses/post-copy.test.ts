import { after, before, describe } from 'node:test';
import { allowPostCopy, whyNoPostCopy } from '../fixtures/post-copy-setting.ts';
import { lossCases } from './loss-cases.ts';

describe('a guest that runs at its target while its memory is still at the source', { skip: whyNoPostCopy() }, () => {
  let putBack: (() => void) | undefined;
  before(() => {
    putBack = allowPostCopy();
  });
  after(() => putBack?.());
  lossCases('post-copy');
});
