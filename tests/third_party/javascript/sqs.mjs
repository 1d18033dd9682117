// The life of a queue, told by the AWS SDK for JavaScript: node sqs.mjs standard|fifo NAME.
// The SDK itself checks the MD5 sums of bodies, sent and received; those of attributes it leaves alone.
import assert from "node:assert/strict";
import {
  AddPermissionCommand,
  ChangeMessageVisibilityBatchCommand,
  ChangeMessageVisibilityCommand,
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  DeleteMessageCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  GetQueueUrlCommand,
  ListDeadLetterSourceQueuesCommand,
  ListMessageMoveTasksCommand,
  ListQueueTagsCommand,
  PurgeQueueCommand,
  QueueDoesNotExist,
  ReceiveMessageCommand,
  RemovePermissionCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  SetQueueAttributesCommand,
  SQSClient,
  StartMessageMoveTaskCommand,
  TagQueueCommand,
  UntagQueueCommand,
  paginateListQueues,
} from "@aws-sdk/client-sqs";

const [kind, name] = process.argv.slice(2);
const sqs = new SQSClient({ maxAttempts: 1 });
const done = [];

const typed = {
  Author: { DataType: "String", StringValue: "Ada “the Countess” <&> 🚰" },
  Amount: { DataType: "Number", StringValue: "-12.50e2" },
  Picture: { DataType: "Binary", BinaryValue: Uint8Array.from({ length: 256 }, (_, byte) => byte) },
  "Colour.hex": { DataType: "String.rgb", StringValue: "#0b7285" },
};

function ask(Command, input) {
  return sqs.send(new Command(input));
}

async function step(text, work) {
  await work();
  done.push(text);
}

async function attribute(QueueUrl, attributeName) {
  const { Attributes } = await ask(GetQueueAttributesCommand, { QueueUrl, AttributeNames: [attributeName] });
  return Attributes?.[attributeName];
}

async function receive(QueueUrl, more = {}) {
  const answer = await ask(ReceiveMessageCommand, { QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 10, ...more });
  return answer.Messages ?? [];
}

async function receiveAll(QueueUrl, count) {
  const messages = [];
  while (messages.length < count) {
    const more = await receive(QueueUrl);
    assert.notEqual(more.length, 0, "a message is missing");
    messages.push(...more);
  }
  return messages;
}

const bodies = (messages) => messages.map((message) => message.Body);

const receipts = (messages) => messages.map(({ ReceiptHandle }, index) => ({ Id: `${index}`, ReceiptHandle }));

async function count(QueueUrl) {
  const names = ["", "NotVisible", "Delayed"].map((state) => `ApproximateNumberOfMessages${state}`);
  const { Attributes } = await ask(GetQueueAttributesCommand, { QueueUrl, AttributeNames: names });
  return names.reduce((sum, each) => sum + Number(Attributes[each]), 0);
}

async function moved(SourceArn) {
  const giveUp = Date.now() + 20_000;
  for (;;) {
    const { Results } = await ask(ListMessageMoveTasksCommand, { SourceArn });
    if (Results[0].Status === "COMPLETED") return Results[0].ApproximateNumberOfMessagesMoved;
    assert.ok(Date.now() < giveUp, `the move is still ${Results[0].Status}`);
  }
}

async function withDeadLetters(QueueUrl, deadName, Attributes) {
  const dead = (await ask(CreateQueueCommand, { QueueName: deadName, Attributes })).QueueUrl;
  const arn = await attribute(dead, "QueueArn");
  const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: arn, maxReceiveCount: 1 });
  await ask(SetQueueAttributesCommand, { QueueUrl, Attributes: { RedrivePolicy } });
  return [dead, arn];
}

async function gone(QueueUrl) {
  await ask(DeleteQueueCommand, { QueueUrl });
  await assert.rejects(ask(SendMessageCommand, { QueueUrl, MessageBody: "late", MessageGroupId: "g" }), (error) => {
    assert.ok(error instanceof QueueDoesNotExist, error);
    assert.equal(error.$metadata.httpStatusCode, 400);
    return true;
  });
}

async function standard() {
  let QueueUrl;

  await step("created", async () => {
    const Attributes = { VisibilityTimeout: "45", MaximumMessageSize: "2048" };
    ({ QueueUrl } = await ask(CreateQueueCommand, { QueueName: name, Attributes, tags: { team: "water" } }));
    assert.equal((await ask(GetQueueUrlCommand, { QueueName: name })).QueueUrl, QueueUrl);
    assert.equal(await attribute(QueueUrl, "VisibilityTimeout"), "45");
  });

  await step("listed", async () => {
    for (const suffix of ["a", "b"]) await ask(CreateQueueCommand, { QueueName: `${name}-${suffix}` });
    const pages = [];
    for await (const page of paginateListQueues({ client: sqs, pageSize: 2 }, { QueueNamePrefix: name })) {
      pages.push(page.QueueUrls.length);
    }
    assert.deepEqual(pages, [2, 1]);
  });

  await step("changed", async () => {
    await ask(SetQueueAttributesCommand, { QueueUrl, Attributes: { VisibilityTimeout: "50" } });
    assert.equal(await attribute(QueueUrl, "VisibilityTimeout"), "50");
    await ask(TagQueueCommand, { QueueUrl, Tags: { level: "3" } });
    await ask(UntagQueueCommand, { QueueUrl, TagKeys: ["team"] });
    assert.deepEqual((await ask(ListQueueTagsCommand, { QueueUrl })).Tags, { level: "3" });
    const permission = { QueueUrl, Label: "all", AWSAccountIds: ["123456789012"], Actions: ["*"] };
    await ask(AddPermissionCommand, permission);
    assert.equal(JSON.parse(await attribute(QueueUrl, "Policy")).Statement[0].Sid, "all");
    await ask(RemovePermissionCommand, { QueueUrl, Label: "all" });
  });

  await step("sent with typed attributes", async () => {
    const MessageBody = 'a "quoted" <&> body,\r\n\t🚰';
    const sent = await ask(SendMessageCommand, { QueueUrl, MessageBody, MessageAttributes: typed });
    const names = { MessageAttributeNames: ["All"], MessageSystemAttributeNames: ["All"] };
    const [message] = await receive(QueueUrl, names);
    assert.equal(message.Body, MessageBody);
    assert.equal(message.MessageId, sent.MessageId);
    assert.equal(message.MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
    assert.equal(message.Attributes.ApproximateReceiveCount, "1");
    for (const [each, { DataType, StringValue, BinaryValue }] of Object.entries(typed)) {
      const found = message.MessageAttributes[each];
      assert.deepEqual([found.DataType, found.StringValue], [DataType, StringValue]);
      if (BinaryValue) assert.deepEqual(Buffer.from(found.BinaryValue), Buffer.from(BinaryValue));
    }
    await ask(DeleteMessageCommand, { QueueUrl, ReceiptHandle: message.ReceiptHandle });
  });

  await step("batched, in part", async () => {
    const Entries = [
      { Id: "good", MessageBody: "good", MessageAttributes: typed },
      { Id: "long", MessageBody: "x".repeat(2049) },
      { Id: "fine", MessageBody: "fine" },
    ];
    const { Successful, Failed } = await ask(SendMessageBatchCommand, { QueueUrl, Entries });
    assert.deepEqual(Successful.map(({ Id }) => Id), ["good", "fine"]);
    assert.deepEqual(Failed.map(({ Id, SenderFault }) => [Id, SenderFault]), [["long", true]]);
    const messages = await receiveAll(QueueUrl, 2);
    assert.deepEqual(bodies(messages).sort(), ["fine", "good"]);
    const changes = receipts(messages).map((entry) => ({ ...entry, VisibilityTimeout: 60 }));
    assert.equal((await ask(ChangeMessageVisibilityBatchCommand, { QueueUrl, Entries: changes })).Successful.length, 2);
    const garbage = { Id: "garbage", ReceiptHandle: "garbage" };
    const deleted = await ask(DeleteMessageBatchCommand, { QueueUrl, Entries: [...receipts(messages), garbage] });
    assert.deepEqual(deleted.Failed.map(({ Id, Code }) => [Id, Code]), [["garbage", "ReceiptHandleIsInvalid"]]);
    assert.equal(await count(QueueUrl), 0);
  });

  await step("polled", async () => {
    const waiting = receive(QueueUrl, { WaitTimeSeconds: 20 });
    await ask(SendMessageCommand, { QueueUrl, MessageBody: "at last" });
    const [message] = await waiting;
    assert.equal(message.Body, "at last");
    const { ReceiptHandle } = message;
    await ask(ChangeMessageVisibilityCommand, { QueueUrl, ReceiptHandle, VisibilityTimeout: 0 });
    const [again] = await receive(QueueUrl);
    assert.equal(again.MessageId, message.MessageId);
    await ask(DeleteMessageCommand, { QueueUrl, ReceiptHandle: again.ReceiptHandle });
  });

  await step("dead and back", async () => {
    const [dead, SourceArn] = await withDeadLetters(QueueUrl, `${name}-dead`, {});
    assert.deepEqual((await ask(ListDeadLetterSourceQueuesCommand, { QueueUrl: dead })).queueUrls, [QueueUrl]);
    await ask(SendMessageCommand, { QueueUrl, MessageBody: "poison", MessageAttributes: typed });
    await receive(QueueUrl, { VisibilityTimeout: 0 });
    assert.deepEqual(await receive(QueueUrl, { WaitTimeSeconds: 0 }), []);
    const look = { VisibilityTimeout: 0, MessageAttributeNames: ["All"] };
    assert.deepEqual(bodies(await receive(dead, look)), ["poison"]);
    await ask(StartMessageMoveTaskCommand, { SourceArn });
    assert.equal(await moved(SourceArn), 1);
    assert.deepEqual(bodies(await receive(QueueUrl)), ["poison"]);
  });

  await step("purged", async () => {
    await ask(SendMessageCommand, { QueueUrl, MessageBody: "later", DelaySeconds: 900 });
    await ask(PurgeQueueCommand, { QueueUrl });
    assert.equal(await count(QueueUrl), 0);
  });

  await step("deleted", () => gone(QueueUrl));
}

async function fifo() {
  const QueueName = `${name}.fifo`;
  let QueueUrl;

  await step("created", async () => {
    const Attributes = { FifoQueue: "true", ContentBasedDeduplication: "true", MaximumMessageSize: "2048" };
    ({ QueueUrl } = await ask(CreateQueueCommand, { QueueName, Attributes, tags: { team: "water" } }));
    assert.equal(await attribute(QueueUrl, "FifoQueue"), "true");
    assert.equal((await ask(GetQueueUrlCommand, { QueueName })).QueueUrl, QueueUrl);
  });

  await step("in order of groups", async () => {
    const numbers = [];
    for (const MessageBody of ["a1", "b1", "a2", "b2"]) {
      const more = { MessageGroupId: MessageBody[0], MessageAttributes: typed };
      numbers.push((await ask(SendMessageCommand, { QueueUrl, MessageBody, ...more })).SequenceNumber);
    }
    assert.deepEqual(numbers, [...numbers].sort());
    const names = { MessageAttributeNames: ["All"], MessageSystemAttributeNames: ["All"] };
    const messages = await receive(QueueUrl, names);
    assert.deepEqual(bodies(messages), ["a1", "a2", "b1", "b2"]);
    assert.deepEqual(messages.map((message) => message.Attributes.MessageGroupId), ["a", "a", "b", "b"]);
    assert.deepEqual(messages.map((message) => message.Attributes.SequenceNumber).sort(), numbers);
    await ask(SendMessageCommand, { QueueUrl, MessageBody: "a3", MessageGroupId: "a" });
    assert.deepEqual(await receive(QueueUrl, { WaitTimeSeconds: 0 }), []);
    const waiting = receive(QueueUrl, { WaitTimeSeconds: 20 });
    await ask(DeleteMessageBatchCommand, { QueueUrl, Entries: receipts(messages) });
    const [last] = await waiting;
    assert.equal(last.Body, "a3");
    const { ReceiptHandle } = last;
    await ask(ChangeMessageVisibilityCommand, { QueueUrl, ReceiptHandle, VisibilityTimeout: 0 });
    const [again] = await receive(QueueUrl);
    assert.equal(again.Body, "a3");
    await ask(DeleteMessageCommand, { QueueUrl, ReceiptHandle: again.ReceiptHandle });
  });

  await step("without duplicates", async () => {
    const same = { QueueUrl, MessageGroupId: "g", MessageDeduplicationId: "id" };
    const first = await ask(SendMessageCommand, { ...same, MessageBody: "one" });
    const second = await ask(SendMessageCommand, { ...same, MessageBody: "two" });
    assert.equal(first.MessageId, second.MessageId);
    const messages = await receive(QueueUrl);
    assert.deepEqual(bodies(messages), ["one"]);
    await ask(DeleteMessageBatchCommand, { QueueUrl, Entries: receipts(messages) });
  });

  await step("batched, in part", async () => {
    const texts = ["first", "x".repeat(2049), "second"];
    const Entries = texts.map((MessageBody, index) => ({ Id: `${index}`, MessageBody, MessageGroupId: "g" }));
    const { Successful, Failed } = await ask(SendMessageBatchCommand, { QueueUrl, Entries });
    assert.deepEqual([Successful.map(({ Id }) => Id), Failed.map(({ Id }) => Id)], [["0", "2"], ["1"]]);
    const messages = await receive(QueueUrl);
    assert.deepEqual(bodies(messages), ["first", "second"]);
    await ask(DeleteMessageBatchCommand, { QueueUrl, Entries: receipts(messages) });
  });

  await step("dead and back, in order", async () => {
    const [dead, SourceArn] = await withDeadLetters(QueueUrl, `${name}-dead.fifo`, { FifoQueue: "true" });
    const order = ["p1", "p2", "p3"];
    for (const MessageBody of order) await ask(SendMessageCommand, { QueueUrl, MessageBody, MessageGroupId: "g" });
    await receive(QueueUrl, { VisibilityTimeout: 0 });
    assert.deepEqual(await receive(QueueUrl, { WaitTimeSeconds: 0 }), []);
    assert.deepEqual(bodies(await receive(dead, { VisibilityTimeout: 0 })), order);
    await ask(StartMessageMoveTaskCommand, { SourceArn });
    assert.equal(await moved(SourceArn), 3);
    assert.deepEqual(bodies(await receive(QueueUrl)), order);
  });

  await step("purged", async () => {
    await ask(PurgeQueueCommand, { QueueUrl });
    assert.equal(await count(QueueUrl), 0);
  });

  await step("deleted", () => gone(QueueUrl));
}

try {
  await (kind === "fifo" ? fifo() : standard());
} finally {
  console.log(JSON.stringify(done));
  sqs.destroy();
}
