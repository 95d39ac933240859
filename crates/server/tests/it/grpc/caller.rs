//! A caller that writes and reads messages as JSON, so that a test can name fields as the documents do.

use bytes::{Buf, BufMut};
use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor, SerializeOptions};
use serde_json::Value;
use stockhold_grpc::DESCRIPTORS;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// A connection to a server.
#[derive(Clone)]
pub(crate) struct Caller {
    pool: DescriptorPool,
    channel: Channel,
    metadata: MetadataMap,
}

impl Caller {
    /// A connection that is made at the first call.
    pub(crate) fn new(address: &str) -> Self {
        Self::on(Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy())
    }

    /// One over this channel.
    pub(crate) fn on(channel: Channel) -> Self {
        let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
        Self { pool, channel, metadata: MetadataMap::new() }
    }

    /// The same connection with metadata for each call.
    pub(crate) fn with(&self, name: &'static str, value: &str) -> Self {
        let mut caller = self.clone();
        caller.metadata.insert(name, MetadataValue::try_from(value).unwrap());
        caller
    }

    pub(crate) fn with_key(&self, key: &str) -> Self {
        self.with("authorization", &format!("Bearer {key}"))
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub(crate) fn methods(&self) -> Vec<MethodDescriptor> {
        let services = self.pool.services().filter(|service| service.full_name().starts_with("stockhold."));
        services.flat_map(|service| service.methods().collect::<Vec<_>>()).collect()
    }

    pub(crate) fn method(&self, name: &str) -> MethodDescriptor {
        let found = self.methods().into_iter().find(|method| method.name() == name);
        found.unwrap_or_else(|| panic!("there is no method {name}"))
    }

    pub(crate) fn message(&self, name: &str) -> MessageDescriptor {
        self.pool.get_message_by_name(&format!("stockhold.v1.{name}")).unwrap()
    }

    /// Calls a method with one request and one answer.
    pub(crate) async fn call(&self, method: &str, request: Value) -> Result<Value, Status> {
        Ok(self.call_for_metadata(method, request).await?.0)
    }

    /// Calls a method: the answer and its metadata.
    pub(crate) async fn call_for_metadata(
        &self,
        method: &str,
        request: Value,
    ) -> Result<(Value, MetadataMap), Status> {
        let request = self.request(method, request);
        let (mut client, codec, path) = self.parts(method).await?;
        let answer = client.unary(request, path, codec).await?;
        let (metadata, message, _) = answer.into_parts();
        Ok((json(&message), metadata))
    }

    /// Opens a stream of answers.
    pub(crate) async fn watch(
        &self,
        method: &str,
        request: Value,
    ) -> Result<tonic::Streaming<DynamicMessage>, Status> {
        let request = self.request(method, request);
        let (mut client, codec, path) = self.parts(method).await?;
        Ok(client.server_streaming(request, path, codec).await?.into_inner())
    }

    /// Opens a stream of requests and answers.
    pub(crate) async fn stream(
        &self,
        method: &str,
        requests: impl tokio_stream::Stream<Item = DynamicMessage> + Send + 'static,
    ) -> Result<tonic::Streaming<DynamicMessage>, Status> {
        let (mut client, codec, path) = self.parts(method).await?;
        let mut request = Request::new(requests);
        *request.metadata_mut() = self.metadata.clone();
        Ok(client.streaming(request, path, codec).await?.into_inner())
    }

    /// A request as a message.
    pub(crate) fn input(&self, method: &str, request: Value) -> DynamicMessage {
        DynamicMessage::deserialize(self.method(method).input(), request).unwrap()
    }

    fn request(&self, method: &str, request: Value) -> Request<DynamicMessage> {
        let mut request = Request::new(self.input(method, request));
        *request.metadata_mut() = self.metadata.clone();
        if let Some(timeout) = self.metadata.get("grpc-timeout") {
            request.metadata_mut().insert("grpc-timeout", timeout.clone());
        }
        request
    }

    async fn parts(
        &self,
        method: &str,
    ) -> Result<(tonic::client::Grpc<Channel>, DynamicCodec, hyper::http::uri::PathAndQuery), Status> {
        let method = self.method(method);
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name()).parse().unwrap();
        Ok((client, DynamicCodec(method.output()), path))
    }
}

/// A message as JSON, with the names of the fields and with numbers.
pub(crate) fn json(message: &DynamicMessage) -> Value {
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .stringify_64_bit_integers(false)
        .skip_default_fields(false);
    let text = {
        let mut out = Vec::new();
        message.serialize_with_options(&mut serde_json::Serializer::new(&mut out), &options).unwrap();
        out
    };
    serde_json::from_slice(&text).unwrap()
}

/// The problem that a status carries.
pub(crate) fn problem(caller: &Caller, status: &Status) -> Value {
    let details = tonic_types::pb::Status::decode(status.details()).unwrap();
    let any = details.details.iter().find(|any| any.type_url.ends_with("stockhold.v1.Problem"));
    let any = any.unwrap_or_else(|| panic!("no problem in {status:?}"));
    json(&DynamicMessage::decode(caller.message("Problem"), &*any.value).unwrap())
}

struct DynamicCodec(MessageDescriptor);
struct DynamicEncoder;
struct DynamicDecoder(MessageDescriptor);

impl Codec for DynamicCodec {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = DynamicEncoder;
    type Decoder = DynamicDecoder;

    fn encoder(&mut self) -> DynamicEncoder {
        DynamicEncoder
    }

    fn decoder(&mut self) -> DynamicDecoder {
        DynamicDecoder(self.0.clone())
    }
}

impl Encoder for DynamicEncoder {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, message: DynamicMessage, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&message.encode_to_vec());
        Ok(())
    }
}

impl Decoder for DynamicDecoder {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        DynamicMessage::decode(self.0.clone(), bytes)
            .map(Some)
            .map_err(|error| Status::internal(error.to_string()))
    }
}
